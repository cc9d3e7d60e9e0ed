# Stands in for python:3.13-slim where no registry of images can be reached: Debian 13 and its Python 3.13.
FROM debian:trixie-slim
RUN apt-get update -q \
    && apt-get install -y -q --no-install-recommends python3 python3-venv ca-certificates \
    && ln -s python3 /usr/bin/python \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
CMD ["python"]

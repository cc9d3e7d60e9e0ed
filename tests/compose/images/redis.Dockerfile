# Stands in for redis:8: Debian's Redis 8, with the account and the directory of the official image.
FROM debian:trixie-slim
RUN groupadd --system --gid 1000 redis \
    && useradd --system --uid 999 --gid 1000 --home-dir /data --no-create-home redis \
    && apt-get update -q \
    && apt-get install -y -q --no-install-recommends redis-server redis-tools \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb \
    && install -d -o redis -g redis /data
VOLUME /data
WORKDIR /data
EXPOSE 6379
CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"]

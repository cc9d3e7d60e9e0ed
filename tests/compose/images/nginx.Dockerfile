# Stands in for nginx:stable: Debian's nginx, with the account of the official image.
FROM debian:trixie-slim
RUN groupadd --system --gid 101 nginx \
    && useradd --system --uid 101 --gid 101 --no-create-home nginx \
    && apt-get update -q \
    && apt-get install -y -q --no-install-recommends nginx-light \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]

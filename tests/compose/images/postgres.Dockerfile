# Stands in for postgres:18: Debian's PostgreSQL 18, with the paths, the account and the variables of the official image.
# A mirror that lags behind still serves testing: its date is not asked.
FROM debian:forky-slim
RUN groupadd --system --gid 999 postgres \
    && useradd --system --uid 999 --gid 999 --home-dir /var/lib/postgresql --shell /bin/bash postgres \
    && apt-get update -q -o Acquire::Check-Valid-Until=false \
    && apt-get install -y -q --no-install-recommends postgresql-common \
    && sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
    && apt-get install -y -q --no-install-recommends postgresql-18 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb \
    && install -d -o postgres -g postgres -m 1777 /var/lib/postgresql /var/run/postgresql
COPY postgres-entrypoint /usr/local/bin/docker-entrypoint.sh
ENV PGDATA=/var/lib/postgresql/18/docker PATH=/usr/lib/postgresql/18/bin:/usr/local/bin:/usr/bin:/bin
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT
EXPOSE 5432
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]

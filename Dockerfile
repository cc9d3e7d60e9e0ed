# The server: web, worker, dispatcher, beat and migrate are this one image with the commands of docker-compose.yml.
# docs/operations/production.md, "Building the image", says how to build behind a private package index or a company CA.
ARG PYTHON_IMAGE=python:3.13-slim
ARG POSTGRES_IMAGE=postgres:18

# pg_dump, pg_restore and psql for backup and restore, of the release that serves, with the libraries that they want:
# they speak TLS, and do not care which distribution PYTHON_IMAGE is.
FROM ${POSTGRES_IMAGE} AS clients
COPY deploy/collect-clients /build/
RUN sh /build/collect-clients /opt/postgresql

FROM ${PYTHON_IMAGE} AS packages
# pip reads PIP_INDEX_URL and PIP_EXTRA_INDEX_URL itself. An address with a password belongs into the secret `pip`.
ARG PIP_INDEX_URL PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
COPY requirements/runtime.txt deploy/slim /build/
RUN --mount=type=secret,id=ca --mount=type=secret,id=pip \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
    && if [ -s /run/secrets/pip ]; then export PIP_CONFIG_FILE=/run/secrets/pip; fi \
    && python -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes -r /build/runtime.txt \
    && /opt/venv/bin/pip uninstall --yes pip \
    && sh /build/slim /opt/venv

FROM ${PYTHON_IMAGE}
# uid and gid are fixed: files that are handed to the containers can be given to them.
RUN groupadd --system --gid 10001 proving \
    && useradd --system --uid 10001 --gid 10001 --create-home proving \
    && install -d -o proving -g proving -m 0700 /srv/state /srv/backups
COPY --from=clients /opt/postgresql /opt/postgresql
COPY --from=packages /opt/venv /opt/venv
WORKDIR /srv/proving-ground
COPY manage.py pyproject.toml ./
COPY agents agents
COPY apps apps
COPY common common
COPY readers readers
COPY stats stats
COPY static static
COPY templates templates
COPY deploy/backup-loop deploy/
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PROVING_STATE_DIR=/srv/state \
    PROVING_STATIC_ROOT=/srv/static \
    PROVING_PG_BIN_DIR=/opt/postgresql/bin
# collectstatic reads the settings but opens no connection; these values end with this step.
RUN PROVING_SECRET_KEY=$(python -c "import secrets; print(secrets.token_urlsafe(50))") \
    PROVING_SSH_KEYS=$(python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())") \
    PROVING_DATABASE_URL=postgres://build@localhost/build \
    PROVING_BROKER_URL=redis://localhost/0 \
    PROVING_CACHE_URL=redis://localhost/9 \
    PROVING_STATE_DIR=/tmp/state \
    python manage.py collectstatic --noinput \
    && rm -r /tmp/state \
    && python -m compileall -q agents apps common readers stats \
    && python -c "import pyarrow.parquet, scipy.signal, scipy.stats" \
    && /opt/postgresql/bin/pg_dump --version
USER 10001:10001
EXPOSE 8000
# Of the web server; compose has others for the other services.
HEALTHCHECK --interval=15s --timeout=15s --start-period=60s CMD ["python", "-I", "apps/ready.py"]
CMD ["python", "-m", "gunicorn", "apps.wsgi", "--bind=0.0.0.0:8000", "--no-control-socket"]
# Last, for each commit has another.
ARG PROVING_VERSION=
ARG PROVING_COMMIT=
ARG PROVING_CREATED=
ARG PROVING_SOURCE=
ARG PROVING_LICENSES=NOASSERTION
ENV PROVING_COMMIT=${PROVING_COMMIT}
LABEL org.opencontainers.image.title="Proving Ground" \
      org.opencontainers.image.description="PostgreSQL benchmark campaigns on your own hosts" \
      org.opencontainers.image.version=${PROVING_VERSION} \
      org.opencontainers.image.revision=${PROVING_COMMIT} \
      org.opencontainers.image.created=${PROVING_CREATED} \
      org.opencontainers.image.source=${PROVING_SOURCE} \
      org.opencontainers.image.licenses=${PROVING_LICENSES}

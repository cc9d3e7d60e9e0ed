"""PostgreSQL by TLS with sslmode=verify-full: the server, and pg_dump and psql of the image."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose import roles
from tests.compose.engine import EngineError
from tests.compose.host import Campaign, Host
from tests.compose.stack import Stack

pytestmark = [pytest.mark.compose, pytest.mark.needs("root", "docker", "compose", "openssl")]
POSTGRES_UID = 999
CA, OTHER_CA = "/run/secrets/ca.pem", "/run/secrets/other-ca.pem"
OVERRIDE = """\
services:
  postgres:
    command:
      - postgres
      - -c
      - max_connections=200
      - -c
      - ssl=on
      - -c
      - ssl_cert_file=/etc/postgres-tls/server.pem
      - -c
      - ssl_key_file=/etc/postgres-tls/server.key
    volumes: ["./postgres-tls:/etc/postgres-tls:ro"]
  web: &by-tls
    environment:
      PROVING_DATABASE_URL: postgres://proving_app@postgres:5432/proving?sslmode=verify-full
  worker: *by-tls
  dispatcher: *by-tls
  beat: *by-tls
  migrate:
    environment:
      PROVING_DATABASE_URL: postgres://proving@postgres:5432/proving?sslmode=verify-full
"""
# Connections from other containers need TLS.
ONLY_TLS = "sed -i 's/^{} all all all/{} all all all/' \"$PGDATA/pg_hba.conf\""


@pytest.fixture
def by_tls(stack: Stack) -> Iterator[None]:
    """The stack, with a PostgreSQL that refuses connections without TLS, and whose CA the server knows."""
    override = stack.folder / "docker-compose.override.yml"
    create_certificates(stack.folder / "secrets", stack.folder / "postgres-tls")
    override.write_text(OVERRIDE)
    stack.set_variables(PROVING_CA_BUNDLE=CA)
    stack.compose("exec", "-T", "postgres", "sh", "-c", ONLY_TLS.format("host", "hostssl"))
    try:
        stack.start()
        yield
    finally:
        stack.compose("exec", "-T", "postgres", "sh", "-c", ONLY_TLS.format("hostssl", "host"))
        override.unlink()
        stack.set_variables(PROVING_CA_BUNDLE="")
        stack.start()


def create_certificates(secrets: Path, server: Path) -> None:
    """Two CAs in the directory that containers see as /run/secrets, and a certificate of the first for `postgres`."""
    secrets.mkdir(exist_ok=True)
    server.mkdir()
    for name in ("ca", "other-ca"):
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        create_certificate(f"/CN={name}", secrets / f"{name}.pem", server / f"{name}.key", *usage)
    signed = (
        "-CA",
        str(secrets / "ca.pem"),
        "-CAkey",
        str(server / "ca.key"),
        "-addext",
        "subjectAltName=DNS:postgres",
    )
    create_certificate("/CN=postgres", server / "server.pem", server / "server.key", *signed)
    os.chown(server / "server.key", POSTGRES_UID, POSTGRES_UID)


def create_certificate(subject: str, certificate: Path, key: Path, *options: str) -> None:
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", subject, *options]
    argv += ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


def client(stack: Stack, program: str, *arguments: str, host: str = "postgres", ca: str = CA, mode: str) -> str:
    """What a client program of the image prints as the role of the server."""
    command = f'PGPASSWORD=$(cat {roles.PASSWORD}) exec /opt/postgresql/bin/{program} "$@"'
    where = [f"host={host} user=proving_app dbname=proving sslmode={mode} sslrootcert={ca}", *arguments]
    return stack.compose("exec", "-T", "web", "sh", "-c", command, program, "--dbname", *where)


@pytest.mark.usefixtures("by_tls")
def test_the_clients_of_the_image_verify_the_certificate_and_a_backup_is_restored(stack: Stack, host: Host) -> None:
    ssl = ("-XAtc", "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    assert client(stack, "psql", *ssl, mode="verify-full").startswith("TLSv1.")
    with pytest.raises(EngineError, match="no encryption"):
        client(stack, "psql", *ssl, mode="disable")
    with pytest.raises(EngineError, match="certificate verify failed"):
        client(stack, "pg_dump", "--schema-only", ca=OTHER_CA, mode="verify-full")
    (network,) = stack.container("postgres")["NetworkSettings"]["Networks"].values()
    with pytest.raises(EngineError, match="does not match host name"):
        client(stack, "pg_dump", "--schema-only", host=network["IPAddress"], mode="verify-full")
    campaign = Campaign.start(host)
    campaign.wait_for_results()
    before = campaign.export()

    stack.shell("docker compose exec -T web python manage.py backup - > by-tls.tar")
    stack.shell("docker compose run --rm --no-deps -T migrate python manage.py restore - --check < by-tls.tar")
    later = Campaign.start(host)
    later.wait_for_results()
    stack.shell("docker compose stop web worker dispatcher beat")
    stack.shell("docker compose run --rm --no-deps -T migrate python manage.py restore - --replace < by-tls.tar")
    stack.start()

    assert campaign.export() == before
    assert stack.client.get("campaigns/?ordering=-created_at")["results"][0]["id"] == campaign.id

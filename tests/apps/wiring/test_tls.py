"""TLS to broker, cache and PostgreSQL needs a certificate of the configured CA for the host's name."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from kombu import Connection
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from apps.configuration import stores
from tests.servers.certificates import certificate, server_context


def front(unix: str, pem: Path, *, greeting: bytes) -> int:
    """The port on which TLS leads to a server's socket. Clients of PostgreSQL ask for TLS first and get `greeting`."""
    context = server_context(pem)
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listening, context, unix, greeting), daemon=True).start()
    return int(listening.getsockname()[1])


def _serve(listening: socket.socket, context: ssl.SSLContext, unix: str, greeting: bytes) -> None:
    while True:
        threading.Thread(target=_join, args=(listening.accept()[0], context, unix, greeting), daemon=True).start()


def _join(client: socket.socket, context: ssl.SSLContext, unix: str, greeting: bytes) -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as server, client:
        if greeting:
            client.recv(8)
            client.sendall(greeting)
        with context.wrap_socket(client, server_side=True) as secure:
            server.connect(unix)
            threading.Thread(target=_copy, args=(server, secure), daemon=True).start()
            _copy(secure, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


def ask_cache(pem: Path, ca: str) -> None:
    port = front(urlsplit(settings.CACHES["default"]["LOCATION"]).path, pem, greeting=b"")
    Redis.from_url(stores.redis_url("PROVING_CACHE_URL", f"rediss://localhost:{port}/9", "", ca)).ping()


def ask_broker(pem: Path, ca: str) -> None:
    port = front(urlsplit(settings.CACHES["default"]["LOCATION"]).path, pem, greeting=b"")
    with Connection(stores.redis_url("PROVING_BROKER_URL", f"rediss://localhost:{port}/0", "", ca)) as broker:
        broker.ensure_connection(max_retries=1, timeout=10)


def ask_database(pem: Path, ca: str) -> None:
    parameters = connection.get_connection_params()
    port = front(f"{parameters['host']}/.s.PGSQL.{parameters.get('port') or 5432}", pem, greeting=b"S")
    url = f"postgres://{quote(parameters['user'])}@localhost:{port}/{quote(parameters['dbname'])}?sslmode=verify-full"
    made = stores.database(url, parameters.get("password", ""), ca, "test")
    where = {"host": made["HOST"], "port": made["PORT"], "user": made["USER"], "dbname": made["NAME"]}
    # The server's own end is no TLS here, so nothing binds the password to the channel.
    with psycopg.connect(**where, password=made["PASSWORD"], channel_binding="disable", **made["OPTIONS"]):
        pass


ASK = [ask_cache, ask_broker, ask_database]
REFUSED = (RedisConnectionError, OperationalError, psycopg.OperationalError)


@pytest.mark.parametrize("ask", ASK)
def test_a_certificate_of_the_ca_for_that_name_is_accepted(
    db: None, tmp_path: Path, ask: Callable[[Path, str], None]
) -> None:
    pem = certificate(tmp_path, "localhost")

    ask(pem, str(pem))


@pytest.mark.parametrize("ask", ASK)
def test_a_certificate_for_another_name_is_refused(db: None, tmp_path: Path, ask: Callable[[Path, str], None]) -> None:
    pem = certificate(tmp_path, "other.example.org")

    with pytest.raises(REFUSED, match=r"Hostname mismatch|does not match host name"):
        ask(pem, str(pem))


@pytest.mark.parametrize("ask", ASK)
def test_a_certificate_of_an_unknown_ca_is_refused(db: None, tmp_path: Path, ask: Callable[[Path, str], None]) -> None:
    with pytest.raises(REFUSED, match="certificate verify failed"):
        ask(certificate(tmp_path, "localhost"), "")

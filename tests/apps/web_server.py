"""gunicorn with the product's own worker, on the database and the cache of the running test."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.test import Client

from apps.accounts.models import User
from embedded import commands, paths

START_S = 120.0


class WebServer:
    """Starts and stops the web server as production runs it. Its standard output and error are in `log`, if one is
    named."""

    def __init__(self, log: Path = Path(os.devnull)) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **environment: str) -> None:
        """Start it with these variables, and wait until it listens."""
        own = {
            "PROVING_DATABASE_URL": _database_url(),
            "PROVING_CACHE_URL": str(settings.CACHES["default"]["LOCATION"]),
            "PROVING_BASE_URL": self.url,
        }
        argv = [sys.executable, *commands.web(f"127.0.0.1:{self.port}")]
        with self.log.open("ab") as out:
            env = {**os.environ, **own, **environment}
            self.process = subprocess.Popen(argv, env=env, cwd=paths.CHECKOUT, stdout=out, stderr=out)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.2)
        raise AssertionError("gunicorn does not listen")

    def logged(self, *parts: str) -> str:
        """The log, as soon as it holds all of these parts: a request is logged after its answer was sent."""
        deadline = time.monotonic() + START_S
        while not all(part in (text := self.log.read_text()) for part in parts):
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        return text

    def stop(self) -> None:
        """Stop it in an orderly way."""
        if self.process:
            self.process.terminate()
            self.process.wait(60)
            self.process = None


def _database_url() -> str:
    """The database of this test, on the server that the environment names."""
    return os.environ["PROVING_DATABASE_URL"].rpartition("/")[0] + f"/{connection.settings_dict['NAME']}"


@contextlib.contextmanager
def serve(log: Path = Path(os.devnull), **environment: str) -> Iterator[WebServer]:
    """A running web server. Needs the test's rows to be committed (transactional_db)."""
    server = WebServer(log)
    try:
        server.start(**environment)
        yield server
    finally:
        server.stop()


def cookie(user: User) -> str:
    """The Cookie header of a new session of this user."""
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"

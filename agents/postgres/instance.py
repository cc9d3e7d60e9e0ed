"""A PostgreSQL that a run uses, its own or another user's: its programs, its SQL, how a client reaches it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence

from ..errors import Failure, HostFailure, Unplannable, WorkloadFailure
from ..host.system import MOST_BYTES, Finished, Stat, System
from ..records.processes import Account, environment
from ..settings import Plan, Proof

if TYPE_CHECKING:
    from ..collectors.over_sql.psql import Psql
    from ..records.processes import Child

QUERY_S, ALIVE_S = 60.0, 1.0
_LOADED = "select to_json(extract(epoch from pg_conf_load_time()))"
RELOAD_S, POLL_S = 30.0, 0.05


def show_version(system: System, account: Account, bin_dir: str) -> Finished:
    """`postgres --version` as this account. Not executed again while the program is the same file."""
    program = f"{bin_dir}/postgres"
    return _show_version(system, account, program, system.stat(program))


@lru_cache(maxsize=8)
def _show_version(system: System, account: Account, program: str, stat: Optional[Stat]) -> Finished:
    identity: dict[str, Any] = {"user": account.user, "group": account.group, "groups": account.groups}
    return system.run([*account.wrapper, program, "--version"], env=environment("", {}), limit_s=60.0, **identity)


class Instance:
    """Common base of all clusters. `user` and `database` are those of the load."""

    pgdata: Path
    socket_dir: Path
    port: int
    user: str
    database: str

    def __init__(self, system: System, bin_dir: str, account: Account) -> None:
        self._system, self.bin_dir, self.account = system, Path(bin_dir), account
        self.load_account = account
        self.start_psql: Optional[Callable[[list[str], dict[str, str]], Child]] = None  # on two pipes; once it runs
        self._session: Optional[Psql] = None
        self.version = self._version()
        self.major = int(re.split(r"[.a-z]", self.version)[0])

    def _version(self) -> str:
        shown = show_version(self._system, self.account, str(self.bin_dir))
        match = re.search(r"(\d+(?:\.\d+)*(?:devel|beta\d+|rc\d+)?)", shown.stdout)
        if shown.code or not match:
            raise HostFailure(f"{self.bin_dir}/postgres does not report its version: {shown.stderr or shown.stdout}")
        return match.group(1)

    def tool(self, name: str) -> str:
        """psql, pgbench, ...: the server's own where it has one, else from the PATH."""
        return self._system.tool(name, str(self.bin_dir))

    @property
    def label(self) -> str:
        """Return its name in messages."""
        return str(self.pgdata)

    @property
    def env(self) -> dict[str, str]:
        """How a client finds the cluster."""
        return {
            "PGHOST": str(self.socket_dir),
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.database,
        }

    @property
    def load_env(self) -> dict[str, str]:
        """How the load finds it; by default with the rights that we have."""
        return self.env

    @property
    def load_role(self) -> str:
        """The role of the load as an SQL identifier; "" if the load connects as the agent does."""
        return ""

    @property
    def owned_by(self) -> str:
        """Return the OWNER clause of CREATE DATABASE; "" if the load has no separate role."""
        return f" owner {self.load_role}" if self.load_role else ""

    @property
    def options(self) -> list[str]:
        """Return the options that the server is started with."""
        return ["-D", str(self.pgdata)]

    def parameter(self, name: str) -> str:
        """A parameter as the configuration of now gives it: postgres -C. Computed ones need a stopped server."""
        shown = self._run([str(self.bin_dir / "postgres"), *self.options, "-C", name], {})
        if shown.code:
            raise HostFailure(f"postgres -C {name} failed: {shown.stderr.strip()}")
        return shown.stdout.strip()

    def sql(self, query: str, database: str = "") -> Any:
        """First value of a query's only row, as JSON, in a new session: one that is open has the parameters of its
        start. WorkloadFailure with the server's words when it fails."""
        return self._first_value(query, database, self.env, self.account)

    def read(self, query: str, database: str) -> Any:
        """The same without side effects, in the session of this database if that is open: a new one takes 20 ms."""
        if self._session and self._session.database == database:
            from ..collectors import NotAvailable

            try:
                return self._session.value(query, QUERY_S)
            except TimeoutError as error:
                self.disconnect()
                raise HostFailure(str(error), query=query) from error
            except NotAvailable:
                self.disconnect()
        return self.sql(query, database)

    def connect(self, database: str = "") -> Psql:
        """Return a session in this database that stays open until `disconnect`. NotAvailable if the server has not
        been started."""
        from ..collectors import NotAvailable
        from ..collectors.over_sql.psql import ARGV, Psql

        database = database or self.database
        if self.start_psql is None:
            raise NotAvailable("the server has not been started")
        if self._session and not (self._session.database == database and self._session.is_responding(ALIVE_S)):
            self.disconnect()
        if not self._session:
            child = self.start_psql([self.tool("psql"), *ARGV], {**self.env, "PGDATABASE": database})
            self._session = Psql(self._system, child, database)
        return self._session

    def disconnect(self) -> None:
        """End that session. A database with a session can neither be copied nor dropped."""
        if self._session:
            self._session.close()
            self._session = None

    def load_sql(self, query: str, database: str = "") -> Any:
        """The same as the role of the load, for queries of its tables: they may be views that call its functions."""
        return self._first_value(query, database, self.load_env, self.load_account)

    def load_run(self, argv: Sequence[str]) -> Finished:
        """Run a short program as the account of the load, which decides what it can read."""
        return self._run(argv, {}, "", self.load_account)

    def _await_reload(self, signal: Callable[[], object]) -> None:
        """Have the server read its configuration, by `signal`, and wait until it has."""
        before, deadline = self.sql(_LOADED, "postgres"), self._system.mono() + RELOAD_S
        signal()
        while self.sql(_LOADED, "postgres") == before:
            if self._system.mono() > deadline:
                raise HostFailure(f"{self.label} did not reload within {RELOAD_S:g} s", "see the server's log")
            self._system.sleep(POLL_S)

    def _first_value(self, query: str, database: str, env: Mapping[str, str], account: Account) -> Any:
        argv = [self.tool("psql"), "-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        # Not as an argument: psql reads a name that contains "=" as a connection string, which can name another server.
        shown = self._run(argv, {**env, "PGDATABASE": database or self.database}, query, account)
        if shown.code:
            raise WorkloadFailure(f"PostgreSQL refused a query: {shown.stderr.strip()}", query=query)
        return json.loads(shown.stdout) if shown.stdout.strip() else None

    def _run(
        self, argv: Sequence[str], env: Mapping[str, str], stdin: str = "", account: Optional[Account] = None
    ) -> Finished:
        account = account or self.account
        return self._system.run(
            [*account.wrapper, *argv],
            env=environment("", env),
            user=account.user,
            group=account.group,
            groups=account.groups,
            stdin=stdin,
            limit_s=QUERY_S,
            most_bytes=MOST_BYTES,  # names of all tables, or the contents of a dump
        )


class Target(Instance, ABC):
    """The interface of the measured PostgreSQL for the session and its workloads."""

    conf_file: str
    home: Optional[Path] = None  # directory in which a private cluster records its data sets
    can_checkpoint = True  # whether the agent may execute CHECKPOINT
    is_shared = False  # whether it may have databases of other users
    keeps_progress = True  # whether the completed steps of a data set may be in the comment of its database
    may_install = True  # whether the agent may create extensions in the database of the load

    @abstractmethod
    def prepare(self, plans: Mapping[str, Plan]) -> None:
        """Create or inspect the cluster, and write the run's parameters into its configuration."""

    @abstractmethod
    def start(self, prefix: Sequence[str], log: Path) -> Optional[int]:
        """Have the server run with all that was prepared; pid of the postmaster, None where it is another machine's."""

    def start_without_huge_pages(self, log: Path) -> int:
        """The same to read its memory. Unplannable if the agent may not start the server twice."""
        accepted = f"a number of pages, because PostgreSQL {self.major} of an existing cluster cannot report its need"
        raise Unplannable("huge_pages.pool", "auto", accepted, "about 1.1 x shared_buffers / 2 MB")

    def parameter_proofs(self, requested: Mapping[str, str]) -> Optional[list[Proof]]:
        """Proofs of parameters that are set by SQL; None for a target whose parameters are in `conf_file`."""
        return None

    def cause_of(self, failure: Optional[Failure]) -> Optional[Failure]:
        """The failure of the run, or what happened to the server if that explains it. Also called after a run that
        has not failed."""
        return failure

    def foreign_clients(self) -> list[str]:
        """Describe other clients that are connected."""
        return []

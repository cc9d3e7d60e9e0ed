"""A run in its own database on a remote server, or in its own schema of an allowed one (see allowed.py). Each change
there is in the journal before it is made.

If the registered role is a superuser, the load connects as a role of the run, as in an existing cluster; otherwise as
the registered role.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Protocol, Sequence

from ...errors import Cancelled, Failure, HostFailure, Interrupted, NotApplied, PlanFailure
from ...records.journal import Journal
from ...records.processes import Account
from ...records.spool import Record
from ...settings import Plan, Proof
from .. import guest, load_role
from ..instance import Target
from . import allowed, by_hand, settings
from .server import CONNECTION, RemoteServer, change_of_server, client_version, write_access
from .settings import BY_HAND, SESSION, SYSTEM

PREFIX, ROLE_PREFIX = "proving_ground_", "proving_load_"
_TAKEN = f"select coalesce(json_agg(datname), '[]') from pg_database where datname like '{PREFIX}%'"  # noqa: S608
_CLIENTS = """
select coalesce(json_agg(format('%s in %s: %s', coalesce(usename, 'no user'), datname, count) order by count desc),
  '[]')
from (select usename, datname, count(*) from pg_stat_activity
  where datname is not null and (datname, usename) is distinct from ({database}::name, {role}::name)
    and datname <> '{own}' and pid <> pg_backend_pid() group by 1, 2) as clients
"""
WAIT_S, POLL_S = 20.0, 1.0


class Run(by_hand.Run, Protocol):
    """The run that uses the server."""

    @property
    def journal(self) -> Journal: ...


class RemoteTarget(RemoteServer, Target):
    """The target of kind `remote_server`. `make_room` creates a directory of the run. The sessions of the agent run as
    `own`, the load runs as `load_account`."""

    conf_file = ""
    is_shared = True

    def __init__(
        self,
        run: Run,
        target: Record,
        access: Record,
        make_room: Callable[[str], Path],
        own: Account,
    ) -> None:
        self._owner, self._journal, self._access, self._make_room = run, run.journal, access, make_room
        self._client = client_version(run.system, target["bin_dir"], own)
        files = write_access(make_room("access"), access, self._client, own.owner)
        super().__init__(run.system, {name: target[name] for name in CONNECTION}, target["bin_dir"], own, files)
        self._target, self._identity = target, dict[str, Any]()
        self._conf, self._scopes = dict[str, str](), dict[str, str]()
        self._load_user, self._load_files = self.user, dict[str, str]()
        self.name = f"{PREFIX}{run.journal.run[:8]}"  # of its database, or of its schema in an allowed one
        self._is_allowed = bool(target.get("use_database"))
        self.keeps_progress = self.may_install = not self._is_allowed

    @property
    def load_role(self) -> str:
        return guest.quoted(self._load_user) if self._load_user != self.user else ""

    @property
    def load_env(self) -> dict[str, str]:
        env = self.env_of(self._load_files, self._load_user, self.database)
        return {**env, "PGOPTIONS": allowed.options(self.name, self._session_values())} if self._is_allowed else env

    def _session_values(self) -> dict[str, str]:
        return {name: value for name, value in self._conf.items() if self._scopes.get(name) == SESSION}

    @property
    def can_checkpoint(self) -> bool:  # type: ignore[override]
        return bool(self._identity["superuser"])

    # Before any change

    def prepare(self, plans: Mapping[str, Plan]) -> None:
        """Check the server, and write its identity to the journal. Unplannable or HostFailure if the run is not
        possible."""
        self._conf = {name: value for plan in plans.values() for name, value in plan.conf.items()}
        self._identity = self.identify()
        self._check()
        self._scopes = self._find_scopes()
        values = {name: value for name, value in self._conf.items() if self._scopes[name] == BY_HAND}
        if values and by_hand.wait(self._owner, self, values, float(self._target["wait_s"])):
            self._identity = self.identify()  # it may have been restarted
            self._check()
        self._warn()
        if SYSTEM in self._scopes.values() and self._identity["superuser"]:
            settings.check_loaded(self)
        if self._identity["superuser"]:
            self._load_user = f"{ROLE_PREFIX}{self._journal.run[:8]}"
        paths = {name: self._target[name] for name in ("name", "bin_dir", "data_dir")}
        own = {name: getattr(self.account, name) for name in ("name", "user", "group", "wrapper")}
        self._journal.note("remote", **self.connection, **paths, account=own, identity=self._identity)

    def _check(self) -> None:
        if self._identity["standby"]:
            raise HostFailure(f"{self.label} is a standby, which is read-only", "register the address of its primary")
        if self._is_allowed:
            return allowed.check(self, self._identity, self.database, self._conf)
        if not (self._identity["superuser"] or self._identity["createdb"]):
            hint = f"ALTER ROLE {guest.quoted(self.user)} CREATEDB"
            raise HostFailure(f"{self.user} cannot create databases on {self.label}", hint)
        return self._check_free()

    def _warn(self) -> None:
        if self._client < self.major:
            message = f"psql and pgbench {self._client} are older than the server, PostgreSQL {self.version}"
            self._owner.log("warning", message)
        clients = self.foreign_clients()
        if clients:
            self._owner.log("warning", f"the server has other clients, which can disturb the run: {'; '.join(clients)}")

    def _check_free(self) -> None:
        """HostFailure while the server has the database of another run."""
        others = [name for name in self.sql(_TAKEN, "postgres") if name != self.name]
        if others:
            hint = f"wait until the other run ends; if there is none: drop database {others[0]}"
            raise HostFailure(f"{self.label} has the database {others[0]} of another run", hint)

    def _find_scopes(self) -> dict[str, str]:
        names = list(self._conf)
        rows = settings.rows(self, names)
        privileges = settings.privileges(self, names, self._identity["superuser"])
        scope = settings.scope_or_by_hand if self._target.get("wait_s") else settings.scope
        return {
            name: scope(name, value, rows[name], privileges, self.user, self.major)
            for name, value in self._conf.items()
        }

    def foreign_clients(self) -> list[str]:
        """Clients of other databases: "app in shop: 3"."""
        role = settings.literal(self._load_user)
        database = settings.literal(self._target["database"])
        query = _CLIENTS.format(database=database, role=role, own="" if self._is_allowed else self.name)
        clients: list[str] = self.sql(query, "postgres")
        return clients

    # In effect

    def start(self, prefix: Sequence[str], log: Path) -> Optional[int]:
        """Create the database or schema of the run, and put the parameters in effect."""
        if self._is_allowed:
            self._make_schema()
        else:
            self._make_database()
            self._check_free()  # another run may have started at the same time
            self.database = self.name
        self._check_login()
        for name, value in self._conf.items():
            if self._scopes[name] == SYSTEM or (self._scopes[name] == SESSION and not self._is_allowed):
                self._set(name, value)
        if SYSTEM in self._scopes.values():
            self.reload()
        return None

    def _make_schema(self) -> None:
        before = allowed.inventory(self, self.database)
        self._journal.note("schema", name=self.name, before=before)
        self.sql(f"create schema {self.name}", self.database)
        # Another run may have started at the same time.
        allowed.check_empty(self, self.database, allowed.inventory(self, self.database)["objects"], self.name)
        self._load_files = self._write_load_access(self._access)

    def _make_database(self) -> None:
        access = self._access
        if self._load_user == self.user:
            self._journal.note("database", name=self.name)
            self.sql(f"create database {self.name} template template0", "postgres")
        else:
            self._journal.note("role", name=self._load_user)
            self._journal.note("database", name=self.name)
            # All statements in one session, because each new one takes several round trips.
            self.sql(";\n".join(guest.creation(self.major, self.name, self._load_user)), "postgres")
            self.sql(";\n".join(load_role.extensions(guest.quoted(self._load_user))), self.name)
            access = {**access, "password": secrets.token_hex(32), "certificate": "", "key": ""}
            self.sql(guest.password(access["password"], self._load_user), "postgres")
        self._load_files = self._write_load_access(access)

    def _write_load_access(self, access: Mapping[str, str]) -> dict[str, str]:
        return write_access(self._make_room("load-access"), access, self._client, self.load_account.owner)

    def _check_login(self) -> None:
        """HostFailure if the role of the load cannot connect."""
        shown = self._run([self.tool("psql"), "-X", "-w", "-c", "select 1"], self.load_env, "", self.load_account)
        if shown.code:
            line = f"host all {self._load_user} ADDRESS scram-sha-256"
            hint = f"allow it in pg_hba.conf: {line}; or register a role without SUPERUSER"
            raise HostFailure(f"{self._load_user} cannot connect to {self.label}: {shown.stderr.strip()}", hint)

    def _set(self, name: str, value: str) -> None:
        scope, original = self._scopes[name], None
        if scope == SYSTEM:
            original = settings.altered(self, name)
            statement = settings.alter_system(name, value)
        else:
            role = guest.quoted(self._load_user)
            statement = settings.set_in_database(role, self.name, name, value)
        before = settings.rows(self, [name])[name]
        self._journal.note("parameter", name=name, scope=scope, original=original, wanted=value, before=before)
        self.sql(statement, "postgres")
        write = {"setting": "postgresql", "key": name, "original": before["show"], "wanted": value, "found": value}
        self._owner.emit("write", write)

    def parameter_proofs(self, requested: Mapping[str, str]) -> list[Proof]:
        return settings.proofs(self, requested, self._scopes, "client" if self._is_allowed else "database user")

    # After the run

    def cause_of(self, failure: Optional[Failure]) -> Optional[Failure]:
        """Interrupted or HostFailure if the server changed or is lost: then the load failed because of that."""
        if not self._identity or isinstance(failure, (Cancelled, Interrupted, PlanFailure)):
            return failure
        try:
            change = change_of_server(self._identity, self._await_identity())
        except HostFailure as lost:
            if isinstance(failure, NotApplied):
                return failure
            return HostFailure(f"the connection to the server was lost: {lost.message}", lost.hint)
        if change:
            return Interrupted(f"the run was interrupted: {change} at {self.label}", "start the run again")
        return failure

    def _await_identity(self) -> Record:
        """Which server answers now. A failover takes a while."""
        deadline = self._system.mono() + WAIT_S
        while True:
            try:
                return self.identify()
            except HostFailure:
                if self._system.mono() > deadline:
                    raise
                self._system.sleep(POLL_S)

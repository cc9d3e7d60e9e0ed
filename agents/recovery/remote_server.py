"""Restoring a remote server: the run's database or schema and its role are dropped, and each parameter is as before,
proven by SQL.

The cluster may have failed over in the meantime, so each address is visited; a server with another system identifier is
not changed. A parameter of the whole server is in a file of one instance, and counts as restored only there. What
cannot be restored stays open in the journal, and is tried again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from ..errors import Failure, HostFailure
from ..host import owned
from ..host.system import System
from ..postgres import guest
from ..postgres.remote_server import allowed, settings
from ..postgres.remote_server.server import CONNECTION, RemoteServer, client_version, is_same_instance, write_access
from ..postgres.remote_server.settings import SYSTEM
from ..records.journal import Journal
from ..records.processes import Account
from ..records.spool import Job, Record

Emit = Callable[[str, Record], None]
WAIT_S, POLL_S = 30.0, 1.0
FORCE = 13  # the first version whose DROP DATABASE can end the sessions of the database
PARTS = ("default acl",)  # dropped with the schema that they belong to
_END_OWN_SESSIONS = """
select to_json(count(pg_terminate_backend(pid))) from pg_stat_activity
where datname = current_database() and usename = current_user and pid <> pg_backend_pid()
"""
_EXISTS = "select to_json(exists (select from {catalogue} where {column} = '{name}'))"


class Reached(NamedTuple):
    """A server that answers at one of the addresses."""

    server: RemoteServer
    identity: Record

    @property
    def is_primary(self) -> bool:
        return not self.identity["standby"]


class ServerRestore:
    """The restore of the remote server that `entry` describes. `conflicts` are changes of other users, left unchanged;
    `unproven` says what is not restored."""

    def __init__(self, job: Job, system: System, journal: Journal, entry: Record, emit: Emit) -> None:
        self._job, self._system, self._journal, self._entry, self._emit = job, system, journal, entry, emit
        account = entry["account"]
        self._own = Account(account["name"], account["user"], account["group"], tuple(account["wrapper"]))
        self._identity: Record = entry["identity"]
        self.conflicts: list[Record] = []
        self.unproven: list[str] = []

    def execute(self) -> None:
        """Restore, verify, and close the entry if all of it is proven."""
        if self._parameters() or self._database() or self._role() or self._schema():
            try:
                self._restore()
            except Failure as failure:
                self._add_unproven(failure.with_hint)
            except OSError as error:
                self._add_unproven(str(error))
            self._journal.remove_scratch()
        if not self.unproven:
            self._journal.note("left", of=self._entry["seq"])

    def _add_unproven(self, message: str) -> None:
        self.unproven.append(f"remote server {self._entry['name']}: {message}")

    def _parameters(self) -> list[Record]:
        return self._journal.unclosed("parameter", "reset")

    def _database(self) -> Optional[Record]:
        return self._journal.unfinished("database", "dropped")

    def _role(self) -> Optional[Record]:
        return self._journal.unfinished("role", "dropped")

    def _schema(self) -> Optional[Record]:
        return self._journal.unfinished("schema", "dropped")

    def _restore(self) -> None:
        answering, failures = self._visit(self._write_access())
        known = self._identity["system_identifier"]
        reached = [each for each in answering if each.identity["system_identifier"] == known]
        statements = self._drop([each.server for each in reached if each.is_primary])
        for entry in reversed(self._parameters()):
            if not self._reset(entry, reached):
                statements.append(settings.alter_system(entry["name"], entry["original"]))
        if statements:
            self._add_unproven(f"{self._unreached(answering, failures)}. Execute there: {'; '.join(statements)}")

    # The servers at the addresses

    def _write_access(self) -> dict[str, str]:
        """The environment of write_access, in a directory of the run."""
        room = Path(self._entry["data_dir"]) / f"scratch-{self._job.run}-return"
        if not self._journal.made(str(room)):
            self._journal.making(str(room))
        if not room.is_dir():
            owned.make_directory(room, self._own.owner)
        client = client_version(self._system, self._entry["bin_dir"], self._own)
        return write_access(room, self._job.access, client, self._own.owner)

    def _visit(self, files: dict[str, str]) -> tuple[list[Reached], list[HostFailure]]:
        """The servers that answer, the run's own first and primaries before standbys; the failures of the others. Waits
        for the run's own."""
        deadline = self._system.mono() + WAIT_S
        while True:
            answering, failures = list[Reached](), list[HostFailure]()
            for address in self._entry["addresses"]:
                connection = {**{name: self._entry[name] for name in CONNECTION}, "addresses": [address]}
                server = RemoteServer(self._system, connection, self._entry["bin_dir"], self._own, files)
                try:
                    answering.append(Reached(server, server.identify()))
                except HostFailure as failure:
                    failures.append(failure)
            answering.sort(key=lambda each: (not self._is_own(each), not each.is_primary))
            if any(map(self._is_own, answering)) or self._system.mono() > deadline:
                return answering, failures
            self._system.sleep(POLL_S)

    def _is_own(self, reached: Reached) -> bool:
        return is_same_instance(self._identity, reached.identity)

    def _unreached(self, answering: list[Reached], failures: list[HostFailure]) -> str:
        """A message: which server does not answer, and what its addresses lead to."""
        own = self._identity
        others = [
            f"{each.server.label} has system identifier {each.identity['system_identifier']}, timeline "
            f"{each.identity['timeline']}{'' if each.is_primary else ', and is a standby'}"
            for each in answering
        ]
        details = "; ".join([*others, *(failure.with_hint for failure in failures)])
        return (
            f"the server of the run (system identifier {own['system_identifier']}, timeline {own['timeline']}, "
            f"address {own['address']}) does not answer at its addresses: {details}"
        )

    # Database and role

    def _drop(self, primaries: list[RemoteServer]) -> list[str]:
        """Drop database and role on each primary: after a failover the new one may have them, and so has the earlier
        one when it returns. Without a primary, the statements that do it."""
        for server in primaries:
            self._drop_on(server, self._made("database"), self._made("role"))
            self._empty(server, self._made("schema"))
        entries = [entry for entry in (self._database(), self._schema(), self._role()) if entry]
        if not primaries:
            return [_drop_statement(entry) for entry in entries]
        for entry in entries:
            self._journal.note("dropped", of=entry["seq"])
        return []

    def _made(self, kind: str) -> Optional[Record]:
        """The journal's entry, dropped or not."""
        return next((record for record in self._journal.records if record["entry"] == kind), None)

    def _drop_on(self, server: RemoteServer, database: Optional[Record], role: Optional[Record]) -> None:
        if database and _exists(server, "pg_database", "datname", database["name"]):
            if server.major < FORCE:
                server.sql(guest.end_sessions(database["name"], (role or {}).get("name", "")), "postgres")
            force = " with (force)" if server.major >= FORCE else ""
            server.sql(f"drop database {database['name']}{force}", "postgres")
        if role and _exists(server, "pg_roles", "rolname", role["name"]):
            server.sql(guest.end_sessions("", role["name"]), "postgres")
            for name in server.sql(guest.traces(role["name"]), "postgres"):
                server.sql(guest.drop_owned(role["name"]), name)
            server.sql(guest.drop_role(role["name"]), "postgres")

    def _empty(self, server: RemoteServer, schema: Optional[Record]) -> None:
        """Drop the objects that the role has created in the allowed database since the inventory before the run, and
        compare the inventories. Objects of other users are left and reported."""
        if schema is None:
            return
        database, before = self._entry["database"], schema["before"]
        server.sql(_END_OWN_SESSIONS, database)
        created = self._created(server, before)
        dependents = allowed.dependents(server, database, created)
        if dependents:
            message = f"in {database}, objects of other users depend on those of the run: {'; '.join(dependents[:3])}"
            raise HostFailure(message, "drop them, then retry")
        for each in created:  # most of the others are in this schema, and are dropped with it
            if each["name"] == schema["name"]:
                server.sql(allowed.drop_statement(each), database)
        for each in self._created(server, before):
            if each["type"] not in PARTS:
                server.sql(allowed.drop_statement(each), database)
        after = allowed.inventory(server, database)
        left = [each["name"] for each in allowed.new_objects(before, after) if each["own"]]
        if left:
            raise HostFailure(f"{', '.join(left[:3])} of {database} could not be dropped", "drop it and retry")
        self._prove_database(schema, server, allowed.differences(before, after))

    def _created(self, server: RemoteServer, before: Record) -> list[Record]:
        """The objects that the role has created in the allowed database since this inventory."""
        after = allowed.inventory(server, self._entry["database"])
        return [each for each in allowed.new_objects(before, after) if each["own"]]

    def _prove_database(self, schema: Record, server: RemoteServer, differing: list[str]) -> None:
        database = self._entry["database"]
        subject, count = f"database {database}", len(schema["before"]["objects"])
        if differing:
            conflict = {"setting": "postgresql", "key": f"postgresql.{subject}", "original": "as before"}
            self.conflicts.append({**conflict, "ours": "as before", "found": "; ".join(differing)})
        evidence = {"source": f"system catalogues of {server.label}", "objects": count, "differences": differing}
        proof = {"setting": "postgresql", "phase": "restored", "subject": subject, "wanted": "the objects before"}
        shown = "the objects before" if not differing else f"changes of other users: {'; '.join(differing)}"
        self._emit(
            "proof", {**proof, "found": shown, "ok": True, "evidence": {**evidence, "conflict": bool(differing)}}
        )

    # Parameters

    def _reset(self, entry: Record, reached: list[Reached]) -> bool:
        """Restore a parameter; False if no server with its file answers."""
        if entry["scope"] != SYSTEM:
            if self._database() is None:
                before = {"setting": entry["before"]["setting"]}
                source = "the database of the run, which is dropped with its values"
                self._close(entry, entry["original"], {"source": source, "was": before, "now": before})
            return True  # dropped with the database
        changed = [each for each in reached if self._restore_value(entry, each.server)]
        # An earlier primary that was rebuilt as a standby has none of its files: then all servers are checked.
        is_complete = len(reached) == len(self._entry["addresses"]) > 1
        instances = [each for each in reached if each in changed or self._is_own(each)]
        instances = instances or (reached if is_complete else [])
        for each in instances:
            each.server.reload()
        if instances:
            self._prove(entry, instances[0].server)
        return bool(instances)

    def _restore_value(self, entry: Record, server: RemoteServer) -> bool:
        """Set the original value if this server has the value of the run; whether it had."""
        if entry["wanted"] == entry["original"] or settings.altered(server, entry["name"]) != entry["wanted"]:
            return False
        server.sql(settings.alter_system(entry["name"], entry["original"]), "postgres")
        return True

    def _prove(self, entry: Record, server: RemoteServer) -> None:
        """Close the entry: the value is as before the run, or another user has set another one since."""
        value = settings.altered(server, entry["name"])
        row = settings.rows(server, [entry["name"]])[entry["name"]] or {}
        was = {name: entry["before"][name] for name in ("setting", "source", "sourcefile")}
        now = {name: row.get(name) for name in was}
        is_conflict = value != entry["original"] or now != was
        if is_conflict:
            conflict = {"setting": "postgresql", "key": f"postgresql.{entry['name']}", "original": was["setting"]}
            self.conflicts.append({**conflict, "ours": entry["wanted"], "found": now["setting"]})
        source = f"pg_settings and pg_file_settings of {server.label}"
        self._close(entry, value, {"source": source, "was": was, "now": now}, conflict=is_conflict)

    def _close(self, entry: Record, value: Any, evidence: Record, *, conflict: bool = False) -> None:
        self._journal.note("reset", of=entry["seq"], found=value, conflict=conflict)
        expected, shown = evidence["was"]["setting"], evidence["now"]["setting"]
        proof = {"setting": "postgresql", "phase": "restored", "subject": entry["name"], "wanted": expected}
        self._emit("proof", {**proof, "found": shown, "ok": True, "evidence": {**evidence, "conflict": conflict}})


def _drop_statement(entry: Record) -> str:
    return f"drop {entry['entry']} {entry['name']}{' cascade' if entry['entry'] == 'schema' else ''}"


def _exists(server: RemoteServer, catalogue: str, column: str, name: str) -> bool:
    return bool(server.sql(_EXISTS.format(catalogue=catalogue, column=column, name=name), "postgres"))


def restore(job: Job, system: System, journal: Journal, emit: Emit) -> Optional[ServerRestore]:
    """Restore the remote server of this run; None if it has none, or if it is restored already."""
    entry = journal.unfinished("remote", "left")
    if entry is None:
        return None
    server_restore = ServerRestore(job, system, journal, entry, emit)
    server_restore.execute()
    return server_restore

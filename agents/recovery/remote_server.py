"""Giving a remote server back: the database and role of the run dropped, each parameter as before, proven by SQL.

The server may have failed over meanwhile, so each of its addresses is visited. A parameter of the whole server is in a
file of one instance: it counts as restored only there. What cannot be reached stays open, and is tried again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional

from ..errors import Failure, HostFailure
from ..host import owned
from ..host.system import System
from ..postgres import guest
from ..postgres.remote_server import settings
from ..postgres.remote_server.server import PLACE, RemoteServer, client_version, is_same_instance, write_access
from ..postgres.remote_server.settings import SYSTEM
from ..records.journal import Journal
from ..records.processes import Account
from ..records.spool import Job, Record

Emit = Callable[[str, Record], None]
WAIT_S, LOOK_S = 30.0, 1.0
FORCE = 13  # the first version that ends the sessions of a database that it drops
_EXISTS = "select to_json(exists (select from {catalogue} where {column} = '{name}'))"


class ServerRestore:
    """The way back of the server that `entry` describes. `conflicts` are somebody else's changes, left alone."""

    def __init__(self, job: Job, system: System, journal: Journal, entry: Record, emit: Emit) -> None:
        self._job, self._system, self._journal, self._entry, self._emit = job, system, journal, entry, emit
        known = entry["account"]
        self._own = Account(known["name"], known["user"], known["group"], tuple(known["wrapper"]))
        self.conflicts: list[Record] = []
        self.unproven: list[str] = []

    def execute(self) -> None:
        """Restore, prove, and close the entry when all is proven."""
        if self._parameters() or self._database() or self._role():
            try:
                self._restore()
            except Failure as failure:
                self._miss(f"{failure.message} ({failure.hint})" if failure.hint else failure.message)
            self._journal.remove_scratch()
        if not self.unproven:
            self._journal.note("left", of=self._entry["seq"])

    def _miss(self, words: str) -> None:
        self.unproven.append(f"remote server {self._entry['name']}: {words}")

    def _parameters(self) -> list[Record]:
        return self._journal.unclosed("parameter", "reset")

    def _database(self) -> Optional[Record]:
        return self._journal.unfinished("database", "dropped")

    def _role(self) -> Optional[Record]:
        return self._journal.unfinished("role", "dropped")

    # The servers behind the addresses

    def _restore(self) -> None:
        room = Path(self._entry["data_dir"]) / f"scratch-{self._job.run}-return"
        if not self._journal.made(str(room)):
            self._journal.making(str(room))
        if not room.is_dir():
            owned.make_directory(room, self._own.owner)
        client = client_version(self._system, self._entry["bin_dir"], self._own)
        files = write_access(room, self._job.access, client, self._own.owner)
        reached = self._visit(files)
        self._drop(reached)
        for entry in reversed(self._parameters()):
            self._reset(entry, reached)

    def _visit(self, files: dict[str, str]) -> list[tuple[RemoteServer, Record]]:
        """(server, identity) of each address that answers. HostFailure when none does."""
        deadline = self._system.mono() + WAIT_S
        while True:
            found, failures = list[tuple[RemoteServer, Record]](), list[HostFailure]()
            for address in self._entry["addresses"]:
                place = {**{name: self._entry[name] for name in PLACE}, "addresses": [address]}
                server = RemoteServer(self._system, place, self._entry["bin_dir"], self._own, files)
                try:
                    found.append((server, server.identify()))
                except HostFailure as failure:
                    failures.append(failure)
            if any(is_same_instance(self._entry["identity"], now) for _, now in found):
                return found
            if self._system.mono() > deadline:
                if not found:
                    raise failures[0]
                return found
            self._system.sleep(LOOK_S)

    # Database and role

    def _drop(self, reached: list[tuple[RemoteServer, Record]]) -> None:
        """On each server that takes writes: a failover may have lost them or kept them, and an earlier primary that
        returns has them still."""
        for server, now in reached:
            if not now["standby"]:
                self._drop_on(server, self._made("database"), self._made("role"))
        known = self._entry["identity"]["system_identifier"]
        gone = any(now["system_identifier"] == known and not now["standby"] for _, now in reached)
        for entry in filter(None, (self._database(), self._role())):
            if gone:
                self._journal.note("dropped", of=entry["seq"])
            else:
                self._miss(self._elsewhere(reached, f"drop {entry['entry']} {entry['name']}"))

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

    # Parameters

    def _reset(self, entry: Record, reached: list[tuple[RemoteServer, Record]]) -> None:
        if entry["scope"] != SYSTEM:
            if self._database() is None:  # they went with it
                self._close(entry, entry["original"], "no value in the database of the run, which is dropped")
            return
        # A server that was made anew as a standby of the one that took over has none of its earlier files.
        all_reached, closed = len(reached) == len(self._entry["addresses"]) > 1, False
        for server, now in reached:
            found = settings.in_auto(settings.lines(server, [entry["name"]]), entry["name"])
            ours = found == entry["wanted"] and found != entry["original"]
            if ours:
                server.sql(settings.alter_system(entry["name"], entry["original"]), "postgres")
                found = entry["original"]
            if ours or all_reached or is_same_instance(self._entry["identity"], now):
                server.reload()
                if not closed:
                    self._prove(entry, server, found)
                closed = True
        if not closed:
            statement = settings.alter_system(entry["name"], entry["original"])
            self._miss(f"{entry['name']}: {self._elsewhere(reached, statement)}")

    def _prove(self, entry: Record, server: RemoteServer, found: Optional[str]) -> None:
        """Close the entry: the server has what it had before, or what somebody else has set since."""
        row = settings.rows(server, [entry["name"]])[entry["name"]] or {}
        was = {name: entry["before"][name] for name in ("setting", "source", "sourcefile")}
        now = {name: row.get(name) for name in was}
        theirs = found != entry["original"] or now != was
        if theirs:
            conflict = {"setting": "postgresql", "key": f"postgresql.{entry['name']}", "original": was["setting"]}
            self.conflicts.append({**conflict, "ours": entry["wanted"], "found": now["setting"]})
        source = f"pg_settings and pg_file_settings of {server.label}"
        self._close(entry, found, source, was=was, now=now, theirs=theirs)

    def _close(self, entry: Record, found: Any, source: str, **more: Any) -> None:
        conflict = bool(more.get("theirs"))
        self._journal.note("reset", of=entry["seq"], found=found, conflict=conflict)
        wanted = more.get("was", {}).get("setting", entry["before"]["setting"])
        shown = more.get("now", {}).get("setting", entry["before"]["setting"])
        proof = {"setting": "postgresql", "phase": "restored", "subject": entry["name"], "wanted": wanted}
        evidence = {"source": source, "conflict": conflict, **more}
        self._emit("proof", {**proof, "found": shown, "ok": True, "evidence": evidence})

    def _elsewhere(self, reached: list[tuple[RemoteServer, Record]], statement: str) -> str:
        was = self._entry["identity"]
        told = ", ".join(
            f"{server.label} is system {now['system_identifier']} on timeline {now['timeline']}"
            + (", a standby" if now["standby"] else "")
            for server, now in reached
        )
        return (
            f"the server of the run (system {was['system_identifier']}, timeline {was['timeline']}, "
            f"address {was['address']}) does not answer at its addresses: {told}. Run there: {statement}"
        )


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

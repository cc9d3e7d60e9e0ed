"""Restoring an existing cluster: our database is dropped, its server and every parameter are as before.

In two halves, with the restore of files and kernel values in between: a server with our values is stopped first, as a
pool of huge pages does not shrink while it is in use. Each step can be repeated after it was interrupted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional

from ..errors import Failure
from ..host.cpulist import render
from ..host.system import System
from ..postgres import guest, service
from ..postgres.service import DATABASE, Owned, Service
from ..records.journal import Journal
from ..records.spool import Record

Emit = Callable[[str, Record], None]
_PENDING = "select coalesce(json_agg(name order by name), '[]') from pg_settings where pending_restart"


class ClusterRestore:
    """The restore of the cluster that `entry` describes. `conflicts` are changes of other users, left unchanged."""

    def __init__(self, system: System, journal: Journal, entry: Record, emit: Emit) -> None:
        self._system, self._journal, self._entry, self._emit = system, journal, entry, emit
        self._service = Service(system, journal, entry)
        self._restarted = any(record["entry"] == "restart" for record in journal.records)
        self.conflicts: list[Record] = []
        self.unproven: list[str] = []

    def before(self) -> None:
        """Restore while the server still has the run's values."""
        if self._service.is_ready():
            with suppress(Failure, OSError):  # tried again when it runs as theirs
                self._drop_database_and_role()
        self._attempt(self._stop)

    def after(self) -> None:
        """When files and kernel values are back."""
        if self._restarted and self._entry["unit"]:
            self._attempt(self._forget_drop_in)
        self._attempt(self._bring_back)
        if not self.unproven:
            self._journal.note("owned", of=self._entry["seq"])

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Failure as failure:
            self.unproven.append(failure.with_hint)
        except OSError as error:
            self.unproven.append(f"{self._entry['data_dir']}: {error}")

    def _database_and_role(self) -> tuple[Optional[Record], Optional[Record]]:
        """The journal's entries of the database and role of the load, until they are dropped."""
        return self._journal.unfinished("database", "dropped"), self._journal.unfinished("role", "dropped")

    def _drop_database_and_role(self) -> None:
        database, role = self._database_and_role()
        if database is None and role is None:
            return
        owned = self._owned()
        owned.sql(guest.end_sessions())
        if database:
            owned.sql(f"drop database if exists {DATABASE}")
            self._journal.note("dropped", of=database["seq"])
        if role:
            for name in owned.sql(guest.traces()):
                owned.sql(guest.drop_owned(), name)
            owned.sql(guest.drop_role())
            self._journal.note("dropped", of=role["seq"])

    def _owned(self) -> Owned:
        owned = Owned(self._system, self._entry)
        owned.locate()
        return owned

    def _stop(self) -> None:
        restart = self._journal.unfinished("restart", "stopped")
        if restart is None:
            return
        # After a reboot with restored files, the server has no value of the run.
        if restart["boot_id"] == self._system.boot_id() or self._journal.open_writes():
            self._service.stop()
        self._journal.note("stopped", of=restart["seq"])

    def _forget_drop_in(self) -> None:
        with suppress(OSError):  # not there, or not only ours
            os.rmdir(Path(self._service.drop_in).parent)
        self._service.reload_units()

    def _bring_back(self) -> None:
        running = self._service.postmaster() is not None
        # A server started after a reboot was started by its admin, so it keeps running.
        rebooted = self._entry["boot_id"] != self._system.boot_id()
        should_run = self._entry["was"] == "running" or (running and rebooted)
        if should_run or any(self._database_and_role()):
            self._run_as_theirs(running)
            self._drop_database_and_role()
            self._prove_parameters(self._owned())
        if not should_run:
            self._service.stop()
            self._prove_configured()
        self._prove_process(should_run)

    def _run_as_theirs(self, running: bool) -> None:
        cpus = self._entry["cpus"]
        prefix = [] if cpus in ("", render(self._system.allowed_cpus())) else ["taskset", "-c", cpus]
        pid = self._service.start(prefix)
        written = any(entry["key"] == self._entry["include"] for entry in self._journal.written)
        if running and written and not self._restarted:
            self._owned().reload(pid)

    # Proof

    def _prove_parameters(self, owned: Owned) -> None:
        if self._entry["was"] == "stopped":
            return
        parameters = owned.parameters(list(self._entry["parameters"]))
        for name, was in self._entry["parameters"].items():
            self._prove_parameter(name, _shown(was), _shown(parameters[name]))
        pending = sorted(set(owned.sql(_PENDING)) - set(self._entry["pending"]))
        ours = [name for name in pending if name in self._entry["parameters"]]
        self._tell("waiting for a restart", self._entry["pending"], pending or self._entry["pending"], not ours)

    def _prove_parameter(self, name: str, was: Any, actual: Any) -> None:
        # An extension's parameter stays known, without a value of ours, until the next restart.
        same = actual == was or (was is None and actual["source"] == "default")
        ours = actual is not None and actual["sourcefile"] == self._entry["include"]
        if not same and not ours:
            conflict = {"setting": "postgresql", "key": f"postgresql.{name}", "original": was, "found": actual}
            self.conflicts.append({**conflict, "ours": None})
        self._tell(name, was, actual, same or not ours)

    def _prove_configured(self) -> None:
        owned = Owned(self._system, self._entry)
        for name, was in owned.configured(list(self._entry["parameters"])).items():
            self._tell(name, self._entry["parameters"][name], was, was == self._entry["parameters"][name])

    def _prove_process(self, should_run: bool) -> None:
        process = self._service.postmaster()
        state = "running" if process else "stopped"
        self._tell("server", "running" if should_run else "stopped", state, should_run == bool(process))
        if process and self._restarted and self._entry["was"] == "running":
            for name, read in (("cpus", service.cpus_of), ("policy", service.policy_of)):
                actual = read(self._system, process.pid)
                self._tell(f"{name} of the server", self._entry[name], actual, actual == self._entry[name])

    def _tell(self, subject: str, expected: Any, actual: Any, ok: bool) -> None:
        evidence = {"conflict": ok and expected != actual, "source": f"the server of {self._entry['data_dir']}"}
        proof = {"setting": "postgresql", "phase": "restored", "subject": subject, "wanted": expected, "found": actual}
        self._emit("proof", {**proof, "ok": ok, "evidence": evidence})
        if not ok:
            self.unproven.append(f"{subject} of {self._entry['data_dir']} is {actual}, was {expected}")


def _shown(row: Optional[Record]) -> Optional[Record]:
    return row and {name: row[name] for name in ("setting", "source", "sourcefile")}


def of(system: System, journal: Journal, emit: Emit) -> Optional[ClusterRestore]:
    """The restore of the existing cluster of this run; None if it has none."""
    entry = journal.unfinished("service", "owned")
    return ClusterRestore(system, journal, entry, emit) if entry else None


def data_dir(journal: Journal) -> str:
    """Return the working directory of the cluster's server, as the kernel names it; "" if there is none."""
    entry = journal.unfinished("service", "owned")
    return os.path.realpath(entry["data_dir"]) if entry else ""

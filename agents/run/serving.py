"""A server for other machines: it admits only the hosts of the run, waits until standbys stream, and runs until it is
released."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional

from ..errors import HostFailure, Interrupted, NotApplied, PlanFailure
from ..host import owned
from ..measure.observer import Observer
from ..measure.stage import POLL_S
from ..postgres.client import USER
from ..postgres.cluster import Cluster
from ..postgres.roles import STEP, configuration, early
from ..postgres.scram import verifier
from ..postgres.standby import Standby
from ..records.processes import Account
from ..records.spool import Record
from ..settings import Proof
from .planning import plan_settings

if TYPE_CHECKING:
    from .running import Run

SETTING = "postgresql"  # under which the proofs of replication are emitted
WATCH_S = 5.0
TAKE_S = 15.0  # a reloaded parameter needs a moment until every walsender has seen it
LEAVE_S = 60.0
SYNCHRONOUS = ("sync", "quorum")
_SLOT = "select to_json(slot_name) from pg_create_physical_replication_slot('{name}', true)"
_SENDERS = """
select coalesce(json_agg(json_build_object('application_name', application_name, 'client_addr', client_addr,
  'state', state, 'sync_state', sync_state) order by application_name), '[]')
from pg_stat_replication where application_name in ({names})
"""


def write_hba(path: Path, serve: Record, account: Account) -> None:
    """Local connections as in any private cluster; over the network each address for what its role needs."""
    lines = ["local all all trust", "local replication all trust"]
    lines += [f"host all {USER} {_network(address)} scram-sha-256" for address in serve.get("clients", [])]
    standbys = dict.fromkeys(each["address"] for each in serve.get("standbys", []))
    lines += [f"host replication {USER} {_network(address)} scram-sha-256" for address in standbys]
    owned.replace(path, ("\n".join(lines) + "\n").encode(), account.owner)


def _network(address: str) -> str:
    return str(ipaddress.ip_network(address))


class Serving:
    """The part of a run that others depend on; `cluster` is a private cluster that listens, or a standby."""

    def __init__(self, run: Run) -> None:
        assert isinstance(run.cluster, Cluster)  # noqa: S101 - planned so
        self._run, self._cluster, self._request = run, run.cluster, run.spec["serve"]
        self._names = [each["name"] for each in self._request.get("standbys", [])]
        self._next_watch, self._following = 0.0, False

    # Steps, in order

    def begin(self) -> None:
        """Let the others in, and return when clients may come."""
        run = self._run
        run.begin(STEP)
        run.act("warm")
        if isinstance(self._cluster, Standby):
            self._await_following()
            return run.emit("serving", {})
        self._let_in()
        where = {"address": self._request["listen"], "port": self._request["port"], "database": self._cluster.database}
        run.emit("listening", where)
        if self._names:
            self._await_following()
            self._take_names()
        return run.emit("serving", where)

    def _let_in(self) -> None:
        password = self._run.job.access.get("password", "")
        if not password:
            raise PlanFailure("the job contains no password for the other hosts", "submit it with access")
        self._cluster.sql(f"alter role {USER} password '{verifier(password, os.urandom(16))}'")
        for name in self._names:
            # Removed with the run, also if its server is down, because a slot left behind would keep all WAL.
            self._run.journal.making(str(self._cluster.pgdata / "pg_replslot" / name))
            self._cluster.sql(_SLOT.format(name=name))

    def _await_following(self) -> None:
        self._await(self._request["limit_s"])
        self._following = True

    def _take_names(self) -> None:
        """Set the names of the synchronous standbys. Set earlier, each commit would have to wait for them."""
        run = self._run
        run.settings = run.spec["settings"]
        self._reload(run.settings)
        self._await(TAKE_S)
        run.verify("before")

    def _await(self, limit_s: float) -> None:
        """Wait until the proofs succeed. NotApplied if they do not in time."""
        system = self._run.system
        deadline, proofs = system.mono() + limit_s, self.proofs()
        while not all(proof.ok for proof in proofs):
            self._run.check()
            self._check_alive()
            if system.mono() > deadline:
                failed = next(proof for proof in proofs if not proof.ok)
                raise NotApplied(failed.subject, failed.wanted, failed.found, f"waited {limit_s:g} s")
            system.sleep(0.1)
            proofs = self.proofs()

    def wait(self) -> None:
        """Wait until the other jobs are done, while all observers continue."""
        run, out = self._run, self._run.job.path / "out" / STEP
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        run.act("measure")
        observer = Observer(run, STEP, out, None)
        observer.begin()
        while not run.job.finishing:
            elapsed = run.system.mono() - observer.begun
            run.check()
            self._check_alive()
            if elapsed > self._request["limit_s"]:
                raise Interrupted(f"the end was not confirmed within {self._request['limit_s']:g} s", "start it again")
            run.system.sleep(min(POLL_S, max(0.01, observer.poll(elapsed) - elapsed)))
        observer.ended()
        observer.finish()

    def release(self) -> None:
        """Let nothing wait for standbys any more, and give them time to leave in order."""
        if isinstance(self._cluster, Standby):
            return
        run, self._following = self._run, False
        if self._names:
            self._reload(early(run.spec))
        run.emit("released", {})
        deadline = run.system.mono() + LEAVE_S
        while self._senders() and run.system.mono() < deadline:
            run.check()
            run.system.sleep(0.1)
        self._cluster.sql(f"alter role {USER} password null")

    # Proofs

    def proofs(self) -> list[Proof]:
        """Return proofs that the standbys stream, and are synchronous if the run requests it."""
        if isinstance(self._cluster, Standby):
            return self._cluster.proofs()
        senders = {each["application_name"]: each for each in self._senders()}
        return [*(self._streams(name, senders.get(name)) for name in self._names), *self._synchronous(senders)]

    def proofs_by_setting(self) -> Iterator[tuple[str, list[Proof]]]:
        """The proofs of standbys in the form of a setting's, once there can be any."""
        if self._following:
            yield SETTING, self.proofs()

    def watch(self) -> None:
        """A standby that leaves is seen soon, and not only after the load."""
        now = self._run.system.mono()
        if self._following and now >= self._next_watch:
            self._next_watch = now + WATCH_S
            self._run.verify("during")

    def _streams(self, name: str, sender: Optional[Record]) -> Proof:
        actual = sender["state"] if sender else "not connected"
        evidence = {"source": "pg_stat_replication", **(sender or {})}
        return Proof(f"standby {name}", "streaming", actual, actual == "streaming", evidence)

    def _synchronous(self, senders: dict[str, Record]) -> list[Proof]:
        configured = self._run.settings.get("postgresql", {}).get("synchronous_standby_names", "")
        if not configured or not self._names:
            return []
        states = {name: sender["sync_state"] for name, sender in senders.items()}
        actual = ", ".join(f"{name} {state}" for name, state in states.items()) or "no standby"
        ok = any(state in SYNCHRONOUS for state in states.values())
        evidence = {"source": "pg_stat_replication", "sync_state": states}
        return [Proof("synchronous standbys", " or ".join(SYNCHRONOUS), actual, ok, evidence)]

    def _senders(self) -> list[Record]:
        if not self._names:
            return []
        senders: list[Record] = self._cluster.sql(_SENDERS.format(names=", ".join(f"'{name}'" for name in self._names)))
        return senders

    # PostgreSQL

    def _reload(self, settings: dict[str, Any]) -> None:
        """Other parameters that a running server takes, and whether it has."""
        conf = configuration(plan_settings(self._run.scene.facts, settings))
        self._cluster.configure(conf)
        self._cluster.sql("select to_json(pg_reload_conf())")
        expected = conf.get("synchronous_standby_names", "")
        deadline = self._run.system.mono() + TAKE_S
        while self._cluster.sql("select to_json(current_setting('synchronous_standby_names'))") != expected:
            if self._run.system.mono() > deadline:
                raise NotApplied("postgresql (synchronous_standby_names)", expected, "the value before the reload")
            self._run.system.sleep(0.05)

    def _check_alive(self) -> None:
        pid = self._run.scene.postmaster
        process = self._run.system.process(pid) if pid else None
        if not process or not process.alive:
            raise HostFailure("PostgreSQL ended while other hosts used it", "see its log, out/postgresql.log")

"""A standby of this run alone: copied from its primary by pg_basebackup, streaming through a slot, gone afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from ..errors import Unplannable
from ..host import owned
from ..host.system import System
from ..records.processes import Account
from ..records.spool import Record
from ..settings import Plan, Proof
from .client import USER, write_passfile
from .cluster import Cluster, Execute, Spawn
from .roles import OLDEST, configuration

COPY_S = 7 * 86400.0
_RECEIVER = """
select json_build_object('recovery', pg_is_in_recovery(), 'receiver',
  (select json_build_object('status', status, 'slot_name', slot_name, 'sender_host', sender_host,
    'sender_port', sender_port) from pg_stat_wal_receiver))
"""


class Standby(Cluster):
    """A cluster in `room`, a directory of the run's own. `execute` and `spawn` as of Cluster."""

    def __init__(
        self,
        system: System,
        target: Record,
        account: Account,
        execute: Execute,
        spawn: Spawn,
        password: str,
        room: Path,
        socket_dir: Path,
    ) -> None:
        super().__init__(system, target, account, execute, spawn)
        if self.major < OLDEST:
            raise Unplannable("target.bin_dir", target["bin_dir"], f"PostgreSQL {OLDEST} or later")
        self.name, self._target = str(target["name"]), target
        self.home, self.pgdata, self.socket_dir = room, room / "pgdata", socket_dir
        self._passfile = room / "pgpass"
        write_passfile(self._passfile, password, account)

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "PGPASSFILE": str(self._passfile)}

    def create(self) -> None:
        """Have the primary's data here, with all that it writes meanwhile."""
        where = ["-h", self._target["address"], "-p", str(self._target["port"]), "-U", USER, "--no-password"]
        how = ["-D", str(self.pgdata), "-X", "stream", "-c", "fast", "-S", self.name]
        self._execute([self.tool("pg_basebackup"), *where, *how], purpose="pg_basebackup", limit_s=COPY_S)
        owned.create(self.pgdata / "standby.signal", owner=self.account.owner)

    def prepare(self, plans: Mapping[str, Plan]) -> None:
        self.create()
        known = {"host": self._target["address"], "port": self._target["port"], "user": USER}
        options = {**known, "passfile": self._passfile, "application_name": self.name}
        conninfo = " ".join(f"{name}='{value}'" for name, value in options.items())
        ours = {"primary_conninfo": conninfo, "primary_slot_name": self.name, "hot_standby": "on"}
        self.configure({**ours, **configuration(dict(plans))})

    def proofs(self) -> list[Proof]:
        """Whether it follows its primary now."""
        row = self.sql(_RECEIVER)
        receiver = row["receiver"] or {}
        status = receiver.get("status") or "no receiver"
        ok = bool(row["recovery"] and status == "streaming" and receiver["slot_name"] == self.name)
        return [Proof(f"standby {self.name}", "streaming", status, ok, {"source": "pg_stat_wal_receiver", **receiver})]

"""The PostgreSQL of another machine, as the client of a run has it: an address, and the password of this run alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Mapping, Optional, Sequence

from ..errors import HostFailure, PlanFailure
from ..host import owned
from ..host.system import System
from ..records.processes import Account
from ..records.spool import Record
from ..settings import Plan
from .instance import Target

USER = "postgres"
READY_S = 30.0


def write_passfile(path: Path, password: str, account: Account) -> None:
    """A file that libpq reads, for the account alone: a password in the environment is everybody's to see."""
    if not password:
        raise PlanFailure("the job contains no access to the server", "submit it with access")
    owned.replace(path, f"*:*:*:*:{password}\n".encode(), account.owner)


class Client(Target):
    """What a load generator on this machine needs of a server on another one; its settings are proven over there."""

    conf_file = ""
    user = USER

    def __init__(self, system: System, target: Record, account: Account, access: Record, room: Path) -> None:
        super().__init__(system, target["bin_dir"], account)
        self.pgdata = Path()
        self._address, self.port = str(target["address"]), int(target["port"])
        self.database = str(access.get("database") or USER)
        self._passfile = room / "pgpass"
        write_passfile(self._passfile, access.get("password", ""), account)

    @property
    def env(self) -> dict[str, str]:
        where = {"PGHOST": self._address, "PGPORT": str(self.port), "PGUSER": self.user, "PGDATABASE": self.database}
        return {**where, "PGPASSFILE": os.fspath(self._passfile), "PGCONNECT_TIMEOUT": "10"}

    def prepare(self, plans: Mapping[str, Plan]) -> None:
        """Nothing of it is ours to prepare."""

    def start(self, prefix: Sequence[str], log: Path) -> Optional[int]:
        """It runs already: only see that it lets us in, and is of our version."""
        deadline, found = self._system.mono() + READY_S, self._ask()
        while not found and self._system.mono() < deadline:
            self._system.sleep(0.5)
            found = self._ask()
        if not found:
            hint = "check that the address is right and the port is open between the hosts"
            raise HostFailure(f"no connection to PostgreSQL at {self._address} port {self.port}: {self._said}", hint)
        if int(found) // 10000 != self.major:
            raise HostFailure(
                f"the server is PostgreSQL {found}, but its client here is {self.version}", "install the same version"
            )
        return None

    def _ask(self) -> str:
        shown = self._run([self.tool("psql"), "-X", "-A", "-t", "-w", "-c", "show server_version_num"], self.env)
        self._said = shown.stderr.strip()
        return shown.stdout.strip() if shown.code == 0 else ""

"""The server of a run over several hosts, as its client uses it: an address and the run's password."""

from __future__ import annotations

import os
import re
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


def passfile(password: str) -> bytes:
    """Pure. A password file of libpq that gives every server this password."""
    escaped = re.sub(r"([\\:])", r"\\\1", password)
    return f"*:*:*:*:{escaped}\n".encode()


def write_passfile(path: Path, password: str, account: Account) -> None:
    """Write a password file that only the account can read. Other accounts could read a password in the environment."""
    if not password:
        raise PlanFailure("the job contains no access to the server", "submit it with access")
    owned.replace(path, passfile(password), account.owner)


class Client(Target):
    """The server on another host, which proves its settings there; this host only runs the load."""

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
        """Do nothing, because the job of the other host prepares the server."""

    def start(self, prefix: Sequence[str], log: Path) -> Optional[int]:
        """Check that the running server accepts connections and has the major version of the client."""
        deadline, version = self._system.mono() + READY_S, self._ask_version()
        while not version and self._system.mono() < deadline:
            self._system.sleep(0.5)
            version = self._ask_version()
        if not version:
            hint = "check that the address is right and the port is open between the hosts"
            raise HostFailure(f"no connection to PostgreSQL at {self._address} port {self.port}: {self._error}", hint)
        if int(version) // 10000 != self.major:
            raise HostFailure(
                f"the server is PostgreSQL {version}, but its client here is {self.version}", "install the same version"
            )
        return None

    def _ask_version(self) -> str:
        """server_version_num; "" if the server does not accept the connection, with the reason in `_error`."""
        shown = self._run([self.tool("psql"), "-X", "-A", "-t", "-w", "-c", "show server_version_num"], self.env)
        self._error = shown.stderr.strip()
        return shown.stdout.strip() if shown.code == 0 else ""

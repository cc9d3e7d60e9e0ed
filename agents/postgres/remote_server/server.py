"""A PostgreSQL server that is reached by SQL alone, as the role that an admin registered sees it.

{"addresses": [name or address], "port", "database": where runs begin, "user", "sslmode"}; its secrets travel as the
job's access: {"password", "ca", "certificate", "key"}, each "" where there is none. With several addresses the server
is the one that takes writes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from ...errors import HostFailure, PlanFailure, WorkloadFailure
from ...host import owned
from ...host.system import System
from ...records.processes import Account
from ...records.spool import Record
from ..cluster import APART, reaches
from ..instance import Instance
from ..service import SEARCH

OLDEST = 10
SERVICES = 12  # the first libpq that knows tcp_user_timeout
HOST = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$|^[0-9A-Fa-f:.]{2,45}$"
RELOAD_S, LOOK_S = 30.0, 0.1
NAME = r"^[^\x00-\x1f]{1,63}$"
SSLMODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
PLACE: dict[str, Any] = {
    "addresses": {
        "type": "array",
        "items": {"type": "string", "pattern": HOST, "description": "a host name or an IP address"},
    },
    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "database": {"type": "string", "pattern": NAME, "description": "a database"},
    "user": {"type": "string", "pattern": NAME, "description": "a role"},
    "sslmode": {"type": "string", "enum": list(SSLMODES)},
}
# A connection that the network has swallowed ends within half a minute.
_SERVICE = """[remote]
keepalives_idle=10
keepalives_interval=5
keepalives_count=3
tcp_user_timeout=30000
"""
_IDENTITY = """
select json_build_object(
  'system_identifier', (select system_identifier::text from pg_control_system()),
  'timeline', case when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end,
  'started', extract(epoch from pg_postmaster_start_time()), 'standby', pg_is_in_recovery(),
  'address', host(inet_server_addr()), 'version', current_setting('server_version'),
  'number', current_setting('server_version_num')::int, 'superuser', current_setting('is_superuser') = 'on',
  'createdb', (select rolcreatedb from pg_roles where rolname = current_user))
"""


def write_access(room: Path, access: Mapping[str, str], major: int, owner: Optional[tuple[int, int]]) -> dict[str, str]:
    """The environment by which libpq of `major` finds the secrets: files in `room` that only `owner` can read."""
    if not (access.get("password") or access.get("key")):
        raise PlanFailure("the job contains no access to the server", "submit it with access")
    password = re.sub(r"([\\:])", r"\\\1", access.get("password", ""))
    texts = {"PGPASSFILE": f"*:*:*:*:{password}\n", "PGSSLROOTCERT": access.get("ca", "")}
    texts |= {"PGSSLCERT": access.get("certificate", ""), "PGSSLKEY": access.get("key", "")}
    if major >= SERVICES:
        texts["PGSERVICEFILE"] = _SERVICE
    env = {name: str(room / name.lower()) for name, text in texts.items() if text}
    for name, path in env.items():
        owned.replace(path, texts[name].encode(), owner)
    return {**env, **({"PGSERVICE": "remote"} if "PGSERVICEFILE" in env else {})}


def own_account(system: System, bin_dir: str, data_dir: str, load: Optional[Account] = None) -> Account:
    """Who runs the agent's own psql: never root, and another than the account of the load, which could read the
    secrets; the latter only where the first cannot get at the programs and the directory."""
    if system.euid() != 0:
        return Account(name=str(system.euid()))
    apart = Account(name=f"uid {APART + 1}", user=APART + 1, group=APART + 1)
    return apart if load is None or reaches(system, apart, bin_dir, data_dir) else load


def client_version(system: System, bin_dir: str, account: Account) -> int:
    """The major version of psql. HostFailure where there is none."""
    tool = system.tool("psql", bin_dir)
    shown = system.run([*account.wrapper, tool, "--version"], user=account.user, group=account.group)
    found = re.search(r"(\d+)", shown.stdout)
    if shown.code or not found:
        raise HostFailure(f"{tool} does not report its version: {shown.stderr or shown.stdout}")
    return int(found.group(1))


_LOADED = "select to_json(extract(epoch from pg_conf_load_time()))"
_RELOAD = "select to_json(pg_reload_conf())"


class RemoteServer(Instance):
    """The server at `place`. `files` are the environment of write_access, readable by `account`."""

    def __init__(self, system: System, place: Record, bin_dir: str, account: Account, files: Mapping[str, str]) -> None:
        self.place, self._files = place, dict(files)
        self.addresses: Sequence[str] = place["addresses"]
        self.pgdata, self.socket_dir, self.port = Path(), Path(), int(place["port"])
        self.user, self.database = str(place["user"]), str(place["database"])
        super().__init__(system, bin_dir, account)

    def _version(self) -> str:
        """That of its client here, until `identify` has asked the server."""
        return str(client_version(self._system, os.fspath(self.bin_dir), self.account))

    @property
    def label(self) -> str:
        return f"{','.join(self.addresses)} port {self.port}"

    def where(self, files: Mapping[str, str], user: str, database: str) -> dict[str, str]:
        """How a client finds it, with these files and as this role."""
        known = {"PGHOST": ",".join(self.addresses), "PGPORT": str(self.port), "PGUSER": user, "PGDATABASE": database}
        several = {"PGTARGETSESSIONATTRS": "read-write"} if len(self.addresses) > 1 else {}
        return {**known, **several, "PGSSLMODE": self.place["sslmode"], "PGCONNECT_TIMEOUT": "10", **files}

    @property
    def env(self) -> dict[str, str]:
        # Perhaps a superuser's session in the database of the load: names must not resolve to objects of the load.
        return {**self.where(self._files, self.user, self.database), "PGOPTIONS": SEARCH}

    def sql(self, query: str, database: str = "") -> Any:
        """As of any instance; the database `postgres` is the one that was registered."""
        return super().sql(query, self.place["database"] if database == "postgres" else database)

    def identify(self) -> Record:
        """Which server answers, and what the role is there. HostFailure when none does."""
        try:
            found: Record = self.sql(_IDENTITY, "postgres")
        except WorkloadFailure as failure:
            raise refusal(self, failure) from failure
        self.version, self.major = str(found["version"]), int(found["number"]) // 10000
        if self.major < OLDEST:
            raise HostFailure(f"{self.label} is PostgreSQL {self.version}", f"use PostgreSQL {OLDEST} or later")
        return found

    def reload(self) -> None:
        """Have the server read its configuration, and wait until it has."""
        before = self.sql(_LOADED, "postgres")
        self.sql(_RELOAD, "postgres")
        deadline = self._system.mono() + RELOAD_S
        while self.sql(_LOADED, "postgres") == before:
            if self._system.mono() > deadline:
                raise HostFailure(f"{self.label} did not reload within {RELOAD_S:g} s", "see the server's log")
            self._system.sleep(LOOK_S)


def refusal(server: RemoteServer, failure: WorkloadFailure) -> HostFailure:
    """What libpq says when it cannot connect, with the next step."""
    text = failure.message.partition("query: ")[2] or failure.message
    for word, hint in (
        ("session is read-only", "use the primary: each address leads to a standby"),
        ("password", "change the password of the remote server on the host's page"),
        ("pg_hba.conf", f"allow the client host in pg_hba.conf: host all {server.user} ADDRESS scram-sha-256"),
        ("certificate", "check the CA certificate and the SSL mode of the remote server"),
        ("SSL", "check the SSL mode of the remote server, and ssl in its configuration"),
        ("permission denied", "grant EXECUTE on that function to the role"),
    ):
        if word in text:
            return HostFailure(f"{server.label} refused {server.user}: {text}", hint)
    hint = "check the address, the port, and the firewalls between the client host and the server"
    return HostFailure(f"{server.label} cannot be queried: {text}", hint)


def moved(before: Record, now: Record) -> str:
    """How the server that answers now differs from the one before, in words; "" if it is the same and ran on. Pure."""
    if now["system_identifier"] != before["system_identifier"]:
        return (
            f"another server answers: system identifier {now['system_identifier']}, was {before['system_identifier']}"
        )
    if now["timeline"] != before["timeline"]:
        return f"the server failed over: timeline {now['timeline']}, was {before['timeline']}"
    if now["standby"] and not before["standby"]:
        return "the server became a standby"
    return "the server was restarted" if now["started"] != before["started"] else ""


def is_same_instance(before: Record, now: Record) -> bool:
    """Whether it has the configuration files of the one before: a standby has its own. Pure."""
    return all(now[name] == before[name] for name in ("system_identifier", "timeline"))

"""A remote server, used as the role that an admin registered.

Its connection is {"addresses": [name or address], "port", "database": where sessions begin, "user", "sslmode"}. The
secrets are sent as the job's access: {"password", "ca", "certificate", "key"}, "" for none. With several addresses the
server is the one that accepts writes.
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
from ..client import passfile
from ..cluster import APART, reaches
from ..instance import Instance
from ..load_role import SAFE

OLDEST = 10
ROUND_TRIPS = 21  # the first one is left out: it includes the work of a new session
TCP_USER_TIMEOUT = 12  # the first libpq with this option
HOST = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$|^[0-9A-Fa-f:.]{2,45}$"
NAME = r"^[^\x00-\x1f]{1,63}$"
SSLMODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
CONNECTION: dict[str, Any] = {
    "addresses": {
        "type": "array",
        "items": {"type": "string", "pattern": HOST, "description": "a host name or an IP address"},
    },
    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "database": {"type": "string", "pattern": NAME, "description": "a database"},
    "user": {"type": "string", "pattern": NAME, "description": "a role"},
    "sslmode": {"type": "string", "enum": list(SSLMODES)},
}
# A connection to a server that no longer answers ends after about 30 s.
_SERVICE = b"""[remote]
keepalives_idle=10
keepalives_interval=5
keepalives_count=3
tcp_user_timeout=30000
"""
_RELOAD = "select to_json(pg_reload_conf())"
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
    """Write the secrets to files in `room` that only `owner` can read. The environment by which libpq of `major` finds
    them."""
    if not (access.get("password") or access.get("key")):
        raise PlanFailure("the job contains no access to the server", "submit it with access")
    names = {"PGSSLROOTCERT": "ca", "PGSSLCERT": "certificate", "PGSSLKEY": "key"}
    contents = {name: access[field].encode() for name, field in names.items() if access.get(field)}
    contents["PGPASSFILE"] = passfile(access.get("password", ""))
    if major >= TCP_USER_TIMEOUT:
        contents["PGSERVICEFILE"] = _SERVICE
    env = {name: str(room / name.lower()) for name in contents}
    for name, path in env.items():
        owned.replace(path, contents[name], owner)
    return {**env, **({"PGSERVICE": "remote"} if "PGSERVICEFILE" in env else {})}


def own_account(system: System, bin_dir: str, data_dir: str, load: Optional[Account] = None) -> Account:
    """The account of the agent's own psql: not root, and not the account of the load, which could read the secrets. The
    account of the load only if the other one cannot access the programs and the directory."""
    if system.euid() != 0:
        return Account(name=str(system.euid()))
    apart = Account(name=f"uid {APART + 1}", user=APART + 1, group=APART + 1)
    return apart if load is None or reaches(system, apart, bin_dir, data_dir) else load


def client_version(system: System, bin_dir: str, account: Account) -> int:
    """The major version of psql. HostFailure if psql does not report one."""
    tool = system.tool("psql", bin_dir)
    if account.user == APART + 1:  # which can read the secrets of every remote server
        system.check_program(tool)
    shown = system.run([*account.wrapper, tool, "--version"], user=account.user, group=account.group)
    version = re.search(r"(\d+)", shown.stdout)
    if shown.code or not version:
        raise HostFailure(f"{tool} does not report its version: {shown.stderr or shown.stdout}")
    return int(version.group(1))


class RemoteServer(Instance):
    """The server of `connection`. `files` is the environment of write_access, readable by `account`."""

    def __init__(
        self, system: System, connection: Record, bin_dir: str, account: Account, files: Mapping[str, str]
    ) -> None:
        self.connection, self._files = connection, dict(files)
        self.addresses: Sequence[str] = connection["addresses"]
        self.pgdata, self.socket_dir, self.port = Path(), Path(), int(connection["port"])
        self.user, self.database = str(connection["user"]), str(connection["database"])
        super().__init__(system, bin_dir, account)

    def _version(self) -> str:
        """The version of psql, until `identify` reads the server's."""
        return str(client_version(self._system, os.fspath(self.bin_dir), self.account))

    @property
    def label(self) -> str:
        return f"{','.join(self.addresses)} port {self.port}"

    def env_of(self, files: Mapping[str, str], user: str, database: str) -> dict[str, str]:
        """How a client connects with these files as this role."""
        base = {"PGHOST": ",".join(self.addresses), "PGPORT": str(self.port), "PGUSER": user, "PGDATABASE": database}
        several = {"PGTARGETSESSIONATTRS": "read-write"} if len(self.addresses) > 1 else {}
        return {**base, **several, "PGSSLMODE": self.connection["sslmode"], "PGCONNECT_TIMEOUT": "10", **files}

    @property
    def env(self) -> dict[str, str]:
        # Perhaps a superuser's session in the database of the load.
        return {**self.env_of(self._files, self.user, self.database), "PGOPTIONS": SAFE}

    def sql(self, query: str, database: str = "") -> Any:
        """As for any instance, but `postgres` means the registered database."""
        return super().sql(query, self.connection["database"] if database == "postgres" else database)

    def identify(self) -> Record:
        """Which server answers, and which rights the role has there. HostFailure if it cannot be queried."""
        self._put_primary_first()
        try:
            identity: Record = self.sql(_IDENTITY, "postgres")
        except WorkloadFailure as failure:
            raise connection_failure(self, failure) from failure
        self.version, self.major = str(identity["version"]), int(identity["number"]) // 10000
        if self.major < OLDEST:
            raise HostFailure(f"{self.label} is PostgreSQL {self.version}", f"use PostgreSQL {OLDEST} or later")
        return identity

    def _put_primary_first(self) -> None:
        """libpq tries the addresses in order. It would end at a standby that has not replayed a new database or role,
        and therefore refuses it."""
        for address in self.addresses if len(self.addresses) > 1 else ():
            one = {**self.connection, "addresses": [address]}
            server = RemoteServer(self._system, one, os.fspath(self.bin_dir), self.account, self._files)
            try:
                is_standby = server.sql("select to_json(pg_is_in_recovery())", "postgres")
            except WorkloadFailure:
                continue  # of several, one may be down
            if not is_standby:
                self.addresses = [address, *(each for each in self.addresses if each != address)]
                return

    def reload(self) -> None:
        """Have the server read its configuration, and wait until it has."""
        self._await_reload(lambda: self.sql(_RELOAD, "postgres"))

    def round_trips_ms(self) -> list[float]:
        """The times of empty queries in one session, as psql measures them, sorted."""
        argv = [self.tool("psql"), "-X", "-q", "-A", "-t", "-w", "-f", "-"]
        shown = self._run(argv, self.env, "\\timing on\n" + "select;\n" * ROUND_TRIPS)
        times = [float(text) for text in re.findall(r"^Time: ([0-9.]+) ms", shown.stdout, re.MULTILINE)[1:]]
        if shown.code or not times:
            message = f"{self.label} ended the session: {shown.stderr.strip()}"
            raise HostFailure(message, "check the connection again")
        return sorted(times)


def connection_failure(server: RemoteServer, failure: WorkloadFailure) -> HostFailure:
    """The error of libpq, with the next step."""
    text = failure.message.partition("query: ")[2] or failure.message
    for word, hint in (
        ("session is read-only", "add the address of the primary: each of these is a standby"),
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


def change_of_server(before: Record, now: Record) -> str:
    """Pure. What happened to the server between two identities; "" if it is the same and was not restarted."""
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
    """Pure. Whether it is the primary of the run, with its configuration files. A standby has other files, but the same
    system identifier and, until it is promoted, the same timeline."""
    return not now["standby"] and all(now[name] == before[name] for name in ("system_identifier", "timeline"))

"""Reads PostgreSQL's parameters that are in effect in the existing clusters of this host, without changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping, Sequence

from ..errors import Failure, HostFailure, WorkloadFailure
from ..facts.clusters import read_config
from ..host import policy
from ..host.system import System
from ..records.processes import Account
from ..settings.postgresql import QUOTABLE
from ..wire.protocol import MAX_PAYLOAD
from .existing import OLDEST, owner_of
from .instance import Instance
from .service import Owned

Record = dict[str, Any]
SOCKETS = ("/var/run/postgresql", "/tmp")  # noqa: S108 - where packages and PostgreSQL itself put them
# A role that may not read all settings does not see those for superusers.
_QUERY = """
select json_build_object(
  'data_dir', (select setting from pg_settings where name = 'data_directory'),
  'all', pg_has_role('pg_read_all_settings', 'member'),
  'settings', (select coalesce(json_object_agg(name, json_build_object('setting', setting, 'unit', unit,
      'vartype', vartype, 'source', source, 'sourcefile', sourcefile, 'sourceline', sourceline,
      'pending_restart', pending_restart, 'show', current_setting(name))), '{{}}')
    from pg_settings where name in ({names})))
"""


def read_parameters(system: System, clusters: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Record]:
    """Return {"name", "data_dir", "settings", "refused"}, as in protocol.py, for each cluster of the facts."""
    most = MAX_PAYLOAD // 2 // max(1, len(clusters))
    return [_of_cluster(system, cluster, names, most) for cluster in clusters]


def _of_cluster(system: System, cluster: Mapping[str, Any], names: Sequence[str], most: int) -> Record:
    settings, refused = {}, None
    try:
        policy.permit(policy.read(system), policy.EXISTING, "clusters")
        settings = _ask(system, cluster, [name for name in names if QUOTABLE.fullmatch(name)])
        if len(json.dumps(settings)) > most:
            settings, refused = {}, HostFailure(f"{cluster['data_dir']} returned more than {most} bytes").as_json()
    except Failure as failure:
        refused = failure.as_json()
    except (OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as problem:
        # The cluster's owner may have put any program in the place of psql.
        refused = HostFailure(f"{cluster['data_dir']} cannot be queried: {problem}").as_json()
    return {"name": cluster["name"], "data_dir": cluster["data_dir"], "settings": settings, "refused": refused}


def _ask(system: System, cluster: Mapping[str, Any], names: Sequence[str]) -> Record:
    """Name -> row of pg_settings, None where the server has no such parameter. One that we may not see is left out."""
    server = _server(system, cluster)
    listed = ", ".join(f"'{name}'" for name in names) or "''"
    try:
        shown = server.sql(_QUERY.format(names=listed))
    except WorkloadFailure as failure:
        hint = f"allow peer authentication for {server.user} in pg_hba.conf: local all {server.user} peer"
        raise HostFailure(f"{server.user} cannot query {cluster['data_dir']}: {failure.message}", hint) from failure
    if shown["data_dir"] and os.path.realpath(shown["data_dir"]) != os.path.realpath(cluster["data_dir"]):
        raise HostFailure(f"{shown['data_dir']} answers instead of {cluster['data_dir']}", "check the host again")
    return {name: shown["settings"].get(name) for name in names if shown["all"] or name in shown["settings"]}


def _server(system: System, cluster: Mapping[str, Any]) -> Instance:
    """The cluster as its owner sees it where we are the owner or root, else as we ourselves do."""
    if not cluster["running"]:
        raise HostFailure(f"{cluster['data_dir']} is not running", "values in effect are only available while it runs")
    if not cluster["bin_dir"] or cluster["major"] < OLDEST:
        hint = "add its bin directory to pg_bin_dirs and check the host again"
        raise HostFailure(f"no installed PostgreSQL {OLDEST} or later matches {cluster['data_dir']}", hint)
    if system.euid() == 0 or system.account(system.euid()) == cluster["owner"]:
        owned = Owned(system, owner_of(system, {**cluster, "os_user": cluster["owner"]}))
        owned.locate()
        return owned
    return Guest(system, cluster)


class Guest(Instance):
    """A cluster of another account, as our own account is let in over the unix socket."""

    database = "postgres"

    def __init__(self, system: System, cluster: Mapping[str, Any]) -> None:
        super().__init__(system, cluster["bin_dir"], Account(name=system.account(system.euid())))
        self.pgdata, self.port, self.user = Path(cluster["data_dir"]), cluster["port"], self.account.name
        self.socket_dir = _socket_dir(system, cluster)


def _socket_dir(system: System, cluster: Mapping[str, Any]) -> Path:
    """Return the socket directory of the owner's server: from its configuration if readable, else the usual one."""
    configured = read_config(system, cluster["config_file"]).get("unix_socket_directories", "")
    for place in [*filter(None, (each.strip() for each in configured.split(","))), *SOCKETS]:
        socket = system.stat(f"{place}/.s.PGSQL.{cluster['port']}")
        if socket and system.account(socket.uid) == cluster["owner"]:
            return Path(place)
    hint = f"register the host with sudo, log in as {cluster['owner']}, or add the socket directory {SOCKETS[0]}"
    raise HostFailure(f"no socket of {cluster['data_dir']} was found for port {cluster['port']}", hint)

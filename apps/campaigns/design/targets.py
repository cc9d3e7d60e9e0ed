"""The PostgreSQL that a campaign measures: a private cluster of an installed version, or an existing server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.run import planning
from agents.settings import Plan
from apps.hosts.models import Host
from apps.hosts.usage import cluster_consents, remote_servers
from apps.tuning import gucs
from common.errors import PlanError

Facts = Mapping[str, Any]
OLDEST = 10  # its pg_stat_activity distinguishes clients from workers
NEWEST = "private cluster, newest version"


def target(host: Host, facts: Facts, request: Mapping[str, str]) -> dict[str, Any]:
    """Return the target of a spec. `request`: as in Campaign.target. PlanError if the host has no such PostgreSQL."""
    unknown = request.keys() - {"bin_dir", "data_dir", "remote"}
    if unknown or len(request) > 1:
        hint = (
            '{} for a private cluster, {"bin_dir": ...} for one of that version, {"data_dir": ...} for an existing '
            'one, {"remote": NAME} for a remote server of the host'
        )
        raise PlanError("target", f"{dict(request)} does not name a PostgreSQL", hint=hint)
    if "remote" in request:
        return {**_private(host, facts, {}), "kind": "remote_server", **remote_servers.target(host, request["remote"])}
    return _existing(host, facts, request["data_dir"]) if "data_dir" in request else _private(host, facts, request)


def _private(host: Host, facts: Facts, request: Mapping[str, str]) -> dict[str, Any]:
    able = _able(facts)
    if not able:
        hint = "install postgresql and postgresql-contrib there, or name further directories in pg_bin_dirs"
        raise PlanError("host", f"no PostgreSQL with initdb and pgbench was found on {host}", hint=hint)
    chosen = [
        installation
        for installation in able
        if installation["bin_dir"] == request.get("bin_dir", installation["bin_dir"])
    ]
    if not chosen:
        hint = "one of " + ", ".join(installation["bin_dir"] for installation in able)
        raise PlanError("target", f"{request['bin_dir']} of {host} contains no PostgreSQL", hint=hint)
    newest = max(chosen, key=lambda each: each["major"])
    return {"kind": "private", "bin_dir": newest["bin_dir"], "data_dir": host.data_dir, "os_user": host.os_user}


def version(facts: Facts, request: Mapping[str, str]) -> str:
    """Return the version of the PostgreSQL that `request` names on this host, as in Campaign.target; "" if it has
    none."""
    if "data_dir" in request:
        clusters = (cluster for cluster in facts.get("clusters", []) if cluster["data_dir"] == request["data_dir"])
        return next((str(cluster["version"] or cluster["major"]) for cluster in clusters), "")
    if "remote" in request:
        return ""
    able = [
        installation
        for installation in _able(facts)
        if installation["bin_dir"] == request.get("bin_dir", installation["bin_dir"])
    ]
    return str(max(able, key=lambda each: each["major"])["version"]) if able else ""


def check_private(spec: Mapping[str, Any], host: Host, facts: Facts) -> None:
    """Raise PlanError if a factor chose a version of which no private cluster can be created."""
    target = spec["target"]
    if target and target["kind"] == "private":
        _private(host, facts, target)


def _able(facts: Facts) -> list[dict[str, Any]]:
    return [
        installation
        for installation in facts["postgresql"]
        if {"initdb", "postgres", "pgbench"} <= set(installation["tools"])
    ]


def newest_with(host: Host, facts: Facts, tool: str) -> str:
    """Return the bin directory of the newest PostgreSQL with this tool. PlanError if there is none."""
    able = [installation for installation in facts["postgresql"] if tool in installation["tools"]]
    if not able:
        hint = "install postgresql and postgresql-contrib there, or name further directories in pg_bin_dirs"
        raise PlanError("workload", f"no PostgreSQL of {host} has {tool}", hint=hint)
    return str(max(able, key=lambda each: each["major"])["bin_dir"])


def check_bin_dir(bin_dir: str, host: Host, facts: Facts) -> None:
    """Raise PlanError unless the directory contains the programs of an installed PostgreSQL; "" is accepted."""
    known = [installation["bin_dir"] for installation in facts["postgresql"]]
    if bin_dir and bin_dir not in known:
        raise PlanError("bin_dir", f"{bin_dir} of {host} contains no PostgreSQL", hint="one of " + ", ".join(known))


def _existing(host: Host, facts: Facts, data_dir: str) -> dict[str, Any]:
    known = {each["data_dir"]: each for each in facts.get("clusters", [])}
    if data_dir not in known:
        hint = "one of " + ", ".join(known) if known else "check the host again"
        raise PlanError("target", f"{host} has no cluster in {data_dir}", hint=hint)
    cluster = known[data_dir]
    if not cluster["bin_dir"] or cluster["major"] < OLDEST:
        hint = "add its bin directory to pg_bin_dirs and check the host again"
        raise PlanError("target", f"the cluster in {data_dir} is not PostgreSQL {OLDEST} or later", hint=hint)
    if facts["level"] != "root" and cluster["owner"] != host.user:
        hint = f"register the host with sudo, or log in as {cluster['owner']}"
        raise PlanError(
            "target", f"{data_dir} belongs to {cluster['owner']}, and the agent runs as {host.user}", hint=hint
        )
    names = ("bin_dir", "data_dir", "config_file", "port", "unit")
    return {
        "kind": "existing",
        **{name: cluster[name] for name in names},
        "os_user": cluster["owner"],
        "include": cluster.get("include", ""),
        "consent": cluster_consents.of(host, data_dir),
    }


def check(spec: Mapping[str, Any], host: Host, facts: Facts) -> None:
    """Raise PlanError if the run needs a restart of the server that is not allowed, or if the cluster includes no
    file of the agent."""
    target = spec["target"]
    if target and target["kind"] == "remote_server":
        return _check_remote(spec, facts)
    if not target or target["kind"] != "existing":
        return None
    if not target["consent"]["measure"]:
        raise cluster_consents.not_measured(host, target["data_dir"])
    plans = planning.plan_settings(dict(facts), spec["settings"])
    parameters = [name for plan in plans.values() for name in plan.conf]
    if parameters and not target["include"]:
        hint = "add the line include_if_exists 'proving_ground.conf' at its end, reload it, and check the host again"
        raise PlanError(
            "target", f"{target['config_file']} of {host} does not include a file that runs may write", hint=hint
        )
    reasons = [f"{name} is set" for name, plan in plans.items() if plan.server_prefix or plan.unit]
    reasons += [f"{name} is set" for name in parameters if gucs.needs_restart(name)]
    running = {cluster["data_dir"]: cluster["running"] for cluster in facts["clusters"]}[target["data_dir"]]
    reasons += [] if running else ["it is stopped"]
    if reasons and not target["consent"]["restart"]:
        hint = f"an admin can allow it on the page of {host}; or remove that setting"
        raise PlanError(
            "target",
            f"a restart of {target['data_dir']} is needed because {reasons[0]}, but no admin has allowed it",
            hint=hint,
        )
    return None


def _check_remote(spec: Mapping[str, Any], facts: Facts) -> None:
    """Raise PlanError for a parameter that needs a restart, unless runs wait for changes by hand. Other privileges
    are checked on the server when a run starts."""
    if spec["target"].get("wait_s"):
        return
    for name in planning.plan_settings(dict(facts), spec["settings"]).get("postgresql", Plan()).conf:
        if gucs.needs_restart(name):
            hint = "let runs of this server wait for changes by hand, or use a cluster on a host with an agent"
            message = "needs a restart of the server, but runs do not restart a remote server"
            raise PlanError(f"settings.postgresql.{name}", message, hint=hint)


def remotes(host: Host) -> list[tuple[str, str]]:
    """The remote servers of a host, as in `choices`."""
    servers = host.remote_servers.all()
    return [(f"remote {server.name}", f"remote: {server.name} ({', '.join(server.addresses)})") for server in servers]


def choices(facts: Facts) -> list[tuple[str, str]]:
    """The choices of a form for a host with these facts: (value, label). `read_choice` reads the value."""
    private = [
        (f"bin_dir {installation['bin_dir']}", f"private, of PostgreSQL {installation['version']}")
        for installation in _able(facts)
    ]
    existing = [(f"data_dir {cluster['data_dir']}", _label(cluster)) for cluster in facts.get("clusters", [])]
    return [*private, *existing]


def _label(cluster: Mapping[str, Any]) -> str:
    state = f"port {cluster['port']}" if cluster["running"] else "stopped"
    return f"existing: {cluster['name']} ({cluster['version'] or cluster['major']}, {state})"


def read_choice(value: str) -> dict[str, str]:
    """ "data_dir /var/lib/x" -> {"data_dir": "/var/lib/x"}; "" -> {}."""
    name, _, path = value.partition(" ")
    return {name: path} if name else {}

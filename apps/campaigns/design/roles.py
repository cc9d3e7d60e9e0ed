"""The roles in a run over several hosts: the server on the campaign's host, a client, standbys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.collectors import COLLECTORS
from agents.postgres.roles import LATE, OLDEST
from agents.wire.protocol import REBOOT, digest
from agents.workloads import WORKLOADS
from apps.campaigns.design import plan
from apps.campaigns.models import Campaign, RunPart
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.infrastructure import addresses
from common.errors import HostError, PlanError

NAMES = ("client", "standbys", "addresses", "port")
PORT = 55432  # not 5432, where a PostgreSQL of the host's owner may listen
MAX_STANDBYS = 8
HINT = '{"client": host id, "standbys": [host ids], "addresses": {host id: address}, "port": number}, all optional'
TOOLS = {"client": {"psql", "pgbench"}, "standbys": {"psql", "pg_basebackup"}}
CLIENT_SIDES = ("client", "tracer")  # of cpu_affinity
UNKNOWN_DURATION_S = 8 * 86400.0  # of a load without a known duration
SPARE_S = 3600.0
Spec = dict[str, Any]
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Member:
    """A host of a run, its role, and the address at which the others reach it."""

    host: Host
    facts: Facts
    address: str


@dataclass(frozen=True)
class HostsByRole:
    """The hosts of a run. Without a client, the load runs on the server's host."""

    server: Member
    client: Member | None
    standbys: tuple[Member, ...]
    port: int

    @property
    def members(self) -> list[Member]:
        return [self.server, *([self.client] if self.client else []), *self.standbys]

    @property
    def loader(self) -> Member:
        """The host that runs the load."""
        return self.client or self.server


def role_names(campaign: Campaign) -> list[tuple[str, str]]:
    """Return (role, name of the host) to show to users. One query, or none for a campaign without roles."""
    roles = campaign.roles
    if not roles:
        return []
    standbys = list(roles.get("standbys", []))
    names = dict(Host.objects.filter(pk__in=[roles.get("client"), *standbys]).values_list("pk", "name"))
    load = [("load", names[roles["client"]])] if roles.get("client") in names else []
    return [
        ("server", campaign.host.name),
        *load,
        *(("standby", names[standby]) for standby in standbys if standby in names),
    ]


def read(campaign: Campaign) -> HostsByRole | None:
    """Return the hosts and roles of a campaign; None without roles. PlanError names the role that is not valid."""
    roles: Mapping[str, Any] = campaign.roles
    if not roles:
        return None
    unknown = roles.keys() - set(NAMES)
    if unknown:
        raise PlanError(f"roles.{min(unknown)}", "is not a role", hint=HINT)
    _check_campaign(campaign)
    client_ids = [roles["client"]] if roles.get("client") is not None else []
    standbys = roles.get("standbys") or []
    if not isinstance(standbys, list) or len(standbys) > MAX_STANDBYS:
        raise PlanError("roles.standbys", f"{standbys!r} is not a list of at most {MAX_STANDBYS} hosts", hint=HINT)
    if not client_ids and not standbys:
        raise PlanError("roles", "the roles need a client or standbys", hint=HINT)
    own = {str(key): str(value) for key, value in (roles.get("addresses") or {}).items()}
    members = [_member("host", campaign.host, own)]
    members += [_named("roles.client", key, own) for key in client_ids]
    members += [_named("roles.standbys", key, own) for key in standbys]
    _check_machines(members)
    client = members[1] if client_ids else None
    return HostsByRole(members[0], client, tuple(members[1 + len(client_ids) :]), _port(roles.get("port") or PORT))


def _check_campaign(campaign: Campaign) -> None:
    if campaign.target.keys() & {"data_dir", "remote"}:
        hint = "remove the target, or give a bin_dir"
        message = "roles need a private cluster: runs do not open an existing cluster or a remote server to other hosts"
        raise PlanError("roles", message, hint=hint)
    if campaign.reboot != Campaign.Reboot.NEVER:
        raise PlanError("reboot", "a run over several hosts cannot restart them", hint="plan without restarts")
    if campaign.placement != Campaign.Placement.ONE:
        raise PlanError("placement", "the roles already define the hosts of the campaign", hint="one")


def _named(field: str, key: Any, own: Mapping[str, str]) -> Member:
    host = Host.objects.filter(pk=key).first() if isinstance(key, int) else None
    if host is None:
        raise PlanError(field, f"host {key!r} does not exist", hint="accepted: the id of a host")
    return _member(field, host, own)


def _member(field: str, host: Host, own: Mapping[str, str]) -> Member:
    facts = allowed_paths.newest_facts(host)
    if not facts:
        raise PlanError(field, f"{host} was never checked", hint="check the host: planning needs its facts")
    address = own.get(str(host.pk)) or host.address
    try:
        return Member(host, facts, addresses.resolve(address))
    except HostError as error:
        hint = f'give the address by which the other hosts reach it: "addresses": {{"{host.pk}": ...}}'
        raise PlanError(field, f"{address} of {host} {error.message}", hint=hint) from error


def _check_machines(members: Sequence[Member]) -> None:
    by_machine: dict[str, Host] = {}
    for member in members:
        machine = member.host.machine_id
        if machine in by_machine:
            same = (
                "the same host" if by_machine[machine] == member.host else f"the same machine as {by_machine[machine]}"
            )
            raise PlanError(
                "roles", f"{member.host} is {same}: a host can have only one role", hint="choose another host"
            )
        by_machine[machine] = member.host


def _port(port: Any) -> int:
    if not isinstance(port, int) or not 1024 <= port <= 65535:
        raise PlanError(
            "roles.port", f"{port!r} is not a port", hint="accepted: 1024 to 65535, unused on the server's host"
        )
    return port


def assign(by_role: HostsByRole, planned: Sequence[plan.Planned]) -> list[plan.Planned]:
    """Return each run with the spec of its own host, and those of the other hosts as its parts."""
    known: dict[str, plan.Planned] = {}
    for run in planned:
        if run.digest not in known:
            known[run.digest] = _assigned(by_role, run)
    parts = ((run, known[run.digest]) for run in planned)
    return [replace(run, spec=cut.spec, digest=cut.digest, loader=cut.loader, parts=cut.parts) for run, cut in parts]


def _assigned(by_role: HostsByRole, run: plan.Planned) -> plan.Planned:
    whole, limit_s = dict(run.spec), _limit(run.spec)
    if whole["target"] is None:
        raise PlanError("roles", "no step of this workload uses PostgreSQL", hint="remove the roles")
    serve = {
        "listen": by_role.server.address,
        "port": by_role.port,
        "clients": [by_role.client.address] if by_role.client else [],
        "standbys": [{"name": _name(n), "address": each.address} for n, each in enumerate(by_role.standbys, 1)],
        "writes": any(WORKLOADS[step["kind"]].writes(step["options"]) for step in whole["steps"]),
        "limit_s": limit_s,
    }
    parts = [_standby(by_role, whole, n, each, limit_s) for n, each in enumerate(by_role.standbys, 1)]
    if by_role.client is None:
        own = {**whole, "serve": serve}
        return replace(run, spec=own, digest=digest(own), parts=tuple(parts))
    served = {**whole, "settings": _of_server(whole["settings"]), "steps": [], "serve": serve}
    served.pop("allowed_paths", None)
    own = _client(by_role, whole, by_role.client)
    parts = [_part(by_role.server, RunPart.Role.SERVER, served), *parts]
    return replace(run, spec=own, digest=digest(own), loader=by_role.client.host.pk, parts=tuple(parts))


def _limit(spec: Mapping[str, Any]) -> float:
    """Return how long a server waits for the message to stop, in case its sender dies."""
    steps = [step for step in spec["steps"] if step["kind"] != REBOOT]
    untold = any(WORKLOADS[step["kind"]].duration(step["options"]) is None for step in steps)
    return SPARE_S + 2 * plan.seconds(spec) + (UNKNOWN_DURATION_S if untold else 0.0)


def _name(number: int) -> str:
    return f"standby{number}"


def _part(member: Member, role: str, spec: Spec) -> plan.PlannedPart:
    return plan.PlannedPart(member.host.pk, role, spec, digest(spec))


def _standby(by_role: HostsByRole, whole: Spec, number: int, member: Member, limit_s: float) -> plan.PlannedPart:
    """Return the job of a standby. It has the parameters of its primary, without those that only matter there."""
    where = {"kind": "standby", "address": by_role.server.address, "port": by_role.port, "name": _name(number)}
    parameters = {k: v for k, v in whole["settings"].get("postgresql", {}).items() if k not in LATE}
    spec = {
        "version": whole["version"],
        "dataset": None,
        "steps": [],
        "serve": {"limit_s": limit_s},
        "target": {**_target(by_role, whole, member, "standbys"), **where},
        "settings": {"postgresql": parameters} if parameters else {},
        "collect": _of_host(whole["collect"]),
    }
    return _part(member, RunPart.Role.STANDBY, spec)


def _client(by_role: HostsByRole, whole: Spec, member: Member) -> Spec:
    where = {"kind": "remote", "address": by_role.server.address, "port": by_role.port}
    target = {**_target(by_role, whole, member, "client"), **where}
    sides = {side: cpus for side, cpus in whole["settings"].get("cpu_affinity", {}).items() if side in CLIENT_SIDES}
    settings = {"cpu_affinity": sides} if sides else {}
    return {**whole, "target": target, "settings": settings, "dataset": None, "collect": _of_host(whole["collect"])}


def _of_server(settings: Mapping[str, Any]) -> Spec:
    sides = {side: cpus for side, cpus in settings.get("cpu_affinity", {}).items() if side not in CLIENT_SIDES}
    rest = {name: value for name, value in settings.items() if name != "cpu_affinity"}
    return {**rest, "cpu_affinity": sides} if sides else rest


def _of_host(collect: Mapping[str, Any]) -> Spec:
    """Return only the collectors of the host itself. Its PostgreSQL is sampled by the part that measures it."""
    return {**collect, "sources": [name for name in collect["sources"] if not COLLECTORS[name].needs_postgres]}


def _target(by_role: HostsByRole, whole: Spec, member: Member, role: str) -> Spec:
    """Return PostgreSQL of the server's version on this host. PlanError if there is none, or if it cannot have a
    standby."""
    bin_dir = whole["target"]["bin_dir"]
    major = next(
        installation["major"]
        for installation in by_role.server.facts["postgresql"]
        if installation["bin_dir"] == bin_dir
    )
    if role == "standbys" and major < OLDEST:
        raise PlanError("roles.standbys", f"PostgreSQL {major} is too old", hint=f"accepted: {OLDEST} or later")
    tools = TOOLS[role] | {"postgres", "initdb"}
    able = [e for e in member.facts["postgresql"] if e["major"] == major and tools <= set(e["tools"])]
    if not able:
        hint = f"install it with {', '.join(sorted(tools))}, and check the host again"
        raise PlanError(
            f"roles.{role}", f"{member.host} has no PostgreSQL {major}, the version of the server", hint=hint
        )
    return {"bin_dir": able[-1]["bin_dir"], "data_dir": member.host.data_dir, "os_user": member.host.os_user}

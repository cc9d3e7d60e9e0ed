"""The hosts of a campaign. Each host has all of the runs, as a block of its own, or blocks are spread over equal
hosts. All runs of one comparison have the same host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from apps.campaigns.design.plan import Planned
from apps.campaigns.models import Campaign
from apps.hosts.facts import changes
from apps.hosts.models import Host
from apps.hosts.usage import windows
from common.errors import PlanError

Plans = Mapping[Host, Sequence[Planned]]


@dataclass(frozen=True)
class HostShare:
    """One host's share of a campaign, and its estimated duration."""

    host: Host
    runs: int
    seconds: float


@dataclass(frozen=True)
class StartPreview:
    """The plan of a campaign that starts now: its runs in order, and how long they take.

    Durations are estimated from earlier runs of the same shape on the host, or from the steps alone. Restarts of the
    host are listed with their number and their duration, measured or assumed. With several hosts, `seconds` is that
    of the slowest; `shares` has each host, and `notes` what its windows mean, as sentences."""

    runs: list[Planned]
    seconds: float
    known: bool
    restarts: int
    restart_s: float
    restart_known: bool
    longest_s: float = 0.0
    shares: Sequence[HostShare] = ()
    notes: Sequence[str] = ()


def shares(planned: Sequence[Planned], each_s: Mapping[Host, float]) -> list[HostShare]:
    """Return the share of each host. `each_s`: estimated seconds of a run there."""
    first = next(iter(each_s))
    counted = Counter(run.host or first.pk for run in planned)
    return [HostShare(host, counted[host.pk], counted[host.pk] * seconds) for host, seconds in each_s.items()]


def notes(share: HostShare, longest_s: float, now: datetime) -> list[str]:
    """Return sentences on what the windows of a host mean for its share; empty if runs may start at any time."""
    host, calendar = share.host, windows.read(share.host.windows, share.host.time_zone)
    if not calendar.windows:
        return []
    _, end = calendar.following(now, share.seconds / max(1, share.runs), share.runs)
    names = "; ".join(map(str, calendar.windows))
    sentences = [
        (
            f"On {host}, runs start {names} ({host.time_zone}): finished at about "
            f"{windows.local_time(end, calendar.zone, now)}."
        )
    ]
    if not calendar.fits(now, longest_s):
        hours = f"{longest_s / 3600:.1f} h"
        sentences.append(
            f"Its longest run, about {hours}, is longer than every window and will continue beyond the end of one."
        )
    return sentences


def hosts_of(campaign: Campaign, further: Sequence[Host] | None = None) -> list[Host]:
    """Return the first host and the further ones. `further`: those of a campaign that is not saved yet.

    PlanError if the campaign cannot run on these hosts together."""
    others = list(further or ()) if campaign._state.adding else list(campaign.further_hosts.order_by("name"))
    hosts = [campaign.host, *others]
    if campaign.placement == Campaign.Placement.ONE and others:
        hint = "choose `each` or `spread` as the placement, or remove the other hosts"
        raise PlanError("placement", "other hosts are named, but the placement uses one", hint=hint)
    if campaign.placement != Campaign.Placement.ONE and not others:
        raise PlanError(
            "further_hosts", "no other host is named", hint="name the other hosts, or choose the placement one"
        )
    if others and campaign.roles:
        raise PlanError("roles", "roles need separate hosts", hint="choose the placement one, or remove the roles")
    _apart(hosts)
    return hosts


def _apart(hosts: Sequence[Host]) -> None:
    """Refuse two hosts that are the same machine: their runs would wait for each other, and would not be
    independent."""
    names: dict[str, Host] = {}
    for host in hosts:
        first = names.setdefault(host.machine_id or f"host {host.pk}", host)
        if first is not host:
            same = f"{host} is named twice" if first == host else f"{host} is the same machine as {first}"
            raise PlanError("further_hosts", same, hint="name other machines")


def on(campaign: Campaign, host: Host) -> Campaign:
    """Return an unsaved copy of the campaign, on this host only."""
    alone = copy(campaign)
    alone.host = host
    return alone


def placed(campaign: Campaign, plans: Plans) -> list[Planned]:
    """Merge the plans of all hosts. Positions count in the campaign, blocks on each host."""
    if len(plans) == 1:
        return [run for runs in plans.values() for run in runs]
    return _spread(plans) if campaign.placement == Campaign.Placement.SPREAD else _each(plans)


def _each(plans: Plans) -> list[Planned]:
    """Give every host all runs; runs with the same position are adjacent."""
    rows = zip(*([(host, run) for run in runs] for host, runs in plans.items()), strict=True)
    runs = [replace(run, host=host.pk) for row in rows for host, run in row]
    return [replace(run, position=position) for position, run in enumerate(runs)]


def _spread(plans: Plans) -> list[Planned]:
    """Distribute whole blocks over the hosts in turn. PlanError unless all hosts have the same plan."""
    hosts = list(plans)
    first = plans[hosts[0]]
    blocks = len({run.block for run in first})
    if blocks < len(hosts):
        hint = "use more repetitions or fewer hosts: each repetition runs on one host"
        raise PlanError("repetitions", f"{blocks} cannot be spread over {len(hosts)} hosts", hint=hint)
    for host in hosts[1:]:
        _same_facts(hosts[0], host)
        for one, other in zip(first, plans[host], strict=True):
            if one.digest != other.digest:
                raise _unlike(hosts[0], host, _differing(one.spec, other.spec))
    return [replace(run, host=hosts[run.block % len(hosts)].pk) for run in first]


def _same_facts(first: Host, second: Host) -> None:
    differences = changes.unlike(first.facts, second.facts)
    if differences:
        raise _unlike(
            first, second, [f"{difference.path} ({difference.was} and {difference.now})" for difference in differences]
        )


def _unlike(first: Host, second: Host, what: Sequence[str]) -> PlanError:
    more = f" and {len(what) - changes.SHOWN} more" if len(what) > changes.SHOWN else ""
    message = f"{first} and {second} are not comparable: {', '.join(what[: changes.SHOWN])}{more}"
    return PlanError("further_hosts", message, hint="run the campaign on each of them instead")


def _differing(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the paths at which two specs differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other})
        return [each for key in keys for each in _differing(one.get(key), other.get(key), f"{path}.{key}".strip("."))]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for place, (a, b) in pairs for each in _differing(a, b, f"{path}.{place}")]
    return [] if one == other else [f"{path} ({changes.value_text(one)} and {changes.value_text(other)})"]

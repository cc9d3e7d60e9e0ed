"""Settings of the sides of a comparison, and other differences between them. Only reads (SELECT)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from apps.campaigns.models import Campaign, Run
from apps.hosts.facts import changes
from apps.hosts.models import Facts, Host

MOST_CHANGES = 60


class ComparedRun(NamedTuple):
    """The columns of a run that a comparison needs. With thousands of runs, this costs a tenth of model instances."""

    pk: UUID
    campaign_id: UUID
    host_id: int
    facts_id: int | None
    position: int
    block: int
    digest: str
    campaign: Campaign
    host: Host


def campaigns_in(sides: Iterable[Iterable[ComparedRun]]) -> dict[UUID, Campaign]:
    """Return the campaigns of these runs, by key. The runs of a campaign share one object; to hash the UUID of each
    run would take several times as long."""
    distinct = {id(run.campaign): run.campaign for runs in sides for run in runs}
    return {campaign.pk: campaign for campaign in distinct.values()}


@dataclass(frozen=True)
class Difference:
    """A path whose values differ between sides. `planned`: a factor of a campaign, or a profile, sets it."""

    path: str
    values: list[str]
    planned: bool


def of_settings(sides: Sequence[Sequence[ComparedRun]]) -> list[Difference]:
    """Return the settings and options of tools that differ, from the specs of the runs."""
    specs = _specs(sides)
    values_of_sides = [_values(specs[digest] for digest in dict.fromkeys(run.digest for run in runs)) for runs in sides]
    planned = {path for runs in sides for run in runs[:1] for path in _planned(run.campaign)}
    profiles = len({campaign.profile_id for campaign in campaigns_in(sides).values()}) > 1
    differing = []
    for path in sorted({path for of_side in values_of_sides for path in of_side}):
        values = [" or ".join(sorted(of_side.get(path, {"not set"}))) for of_side in values_of_sides]
        if len(set(values)) > 1:
            by_design = any(path == name or path.startswith(f"{name}.") for name in planned)
            differing.append(Difference(path, values, by_design or (profiles and path.startswith("settings."))))
    return differing


def _specs(sides: Sequence[Sequence[ComparedRun]]) -> dict[str, dict[str, str]]:
    """Return digest -> settings and options of the spec with it."""
    first = {run.digest: run.pk for runs in sides for run in runs}
    known = Run.objects.filter(pk__in=first.values()).values_list("digest", "spec")
    return {digest: _flat(_settings_and_options(spec)) for digest, spec in known}


def _settings_and_options(spec: Mapping[str, Any]) -> dict[str, Any]:
    steps = {step["name"]: step.get("options", {}) for step in spec.get("steps", [])}
    return {"settings": spec.get("settings", {}), "steps": steps}


def _planned(campaign: Campaign) -> Iterator[str]:
    """Yield the paths that its factors set, as in a spec."""
    for factor in campaign.factors:
        for level in factor["levels"]:
            for path in level.get("set", {}):
                yield path
                if path.startswith("workload."):
                    yield from (f"steps.{step['name']}.{path.removeprefix('workload.')}" for step in campaign.steps)


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        flat: dict[str, str] = {}
        for name, inner in value.items():
            flat |= _flat(inner, f"{path}.{name}" if path else str(name))
        return flat
    return {path: value if isinstance(value, str) else json.dumps(value)}


def _values(specs: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for spec in specs:
        for path, value in spec.items():
            values.setdefault(path, set()).add(value)
    return values


def of_hosts(sides: Sequence[Sequence[ComparedRun]], names: Sequence[str]) -> tuple[list[Difference], list[str]]:
    """Return (differences that no setting made, such as kernel, versions and hardware; warnings), from the hosts'
    facts."""
    ids = [sorted({run.facts_id for run in runs if run.facts_id}) for runs in sides]
    known = Facts.objects.in_bulk({pk for each in ids for pk in each})
    facts = [[known[pk].data for pk in own] for own in ids]
    mixed = [_mixed(name, runs, own) for name, runs, own in zip(names, sides, facts, strict=True)]
    missing = [] if all(facts) else ["Some runs have no recorded host facts, so other differences may be missing."]
    return _between(facts)[:MOST_CHANGES], [text for text in [*mixed, *missing] if text]


def _between(facts: Sequence[Sequence[dict[str, Any]]]) -> list[Difference]:
    """Return weighty facts that differ between or within the sides, compared with the newest facts of the first
    side."""
    if not facts[0]:
        return []
    reference, rows = facts[0][-1], dict[str, list[list[str]]]()
    own = [[{change.path: change for change in changes.weighty(reference, each)} for each in side] for side in facts]
    for path, was in {path: change.was for side in own for by_path in side for path, change in by_path.items()}.items():
        rows[path] = [
            list(dict.fromkeys(by_path[path].now if path in by_path else was for by_path in side)) or ["not recorded"]
            for side in own
        ]
    return [Difference(path, [" or ".join(values) for values in sides], planned=False) for path, sides in rows.items()]


def _mixed(name: str, runs: Sequence[ComparedRun], facts: Sequence[dict[str, Any]]) -> str:
    """Return a warning if the runs of one side are not repetitions: several hosts, or a host that changed."""
    hosts = sorted(host.name for host in {run.host_id: run.host for run in runs}.values())
    if len(hosts) > 1:
        return f"{name} mixes runs of {len(hosts)} hosts: {', '.join(hosts)}."
    paths = sorted({change.path for other in facts[1:] for change in changes.weighty(facts[0], other)})
    more = f" and {len(paths) - changes.SHOWN} more" if len(paths) > changes.SHOWN else ""
    named = ", ".join(paths[: changes.SHOWN]) + more
    return f"{name} mixes runs before and after a host change: {named}." if paths else ""

"""Compare the values of a host with the decided ones, as far as they are known. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from agents.settings.postgresql import same
from apps.decisions.evidence.conditions import Range
from apps.hosts.access.replies import MAX_QUERIED
from apps.tuning.effects import COMMANDS, PlannedChange, dry_run

SAME, DIFFERS, UNKNOWN = "same", "differs", "not comparable"
UNREAD = {
    "initdb": "set when the cluster was created",
    "hold": "fixed for the lifetime of a process",
    "act": "applied before a server starts",
    "limit": "visible only during runs",
    "sql": "applied to a running server",
    **dict.fromkeys(COMMANDS, "visible only during runs"),
}


# Values of one role, database or session, which do not apply to others.
NOT_ALL = {"user", "database", "database user", "client", "session", "interactive"}


@dataclass(frozen=True)
class ComparedValue:
    """One value. If it is unknown, `found` is None and `why` has the reason. `cluster`: the cluster that has the
    parameter."""

    setting: str
    key: str
    decided: str
    found: str | None
    state: str
    why: str = ""
    cluster: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def rows(
    facts: Mapping[str, Any],
    settings: Mapping[str, Any],
    live: Mapping[str, Any] | None = None,
    reported: Sequence[Mapping[str, Any]] = (),
) -> list[ComparedValue]:
    """Return the rows of a host from its facts, or from replies of its agent: `live` to discover, `reported` to
    parameters."""
    items = dry_run(facts, settings, live).items
    return [row for item in items for row in _rows(item, reported, _unknown_reason(facts, live is not None))]


def parameters_to_query(
    facts: Mapping[str, Any], settings: Mapping[str, Any], data_dir: str, versions: Range
) -> dict[str, Any]:
    """Return the request for parameters, see `parameters` in agents/wire/protocol.py: of the measured cluster in
    `data_dir`, else of each of these versions.

    Stopped clusters only count if none runs. Those that a unit starts come first: any account of the host may have
    started others."""
    known = facts.get("clusters", [])
    meant = [each for each in known if each["data_dir"] == data_dir]
    fitting = meant or [each for each in known if not versions or versions.holds(str(each["major"]))]
    names = [item.key for item in dry_run(facts, settings).items if _is_parameter(item)]
    queried = [each for each in fitting if each["running"]] or fitting
    queried.sort(key=lambda each: not each.get("unit"))
    return {"clusters": queried[:MAX_QUERIED], "names": names}


def with_earlier(current: list[ComparedValue], earlier: list[ComparedValue], at: datetime) -> list[ComparedValue]:
    """Return the rows of the facts. Facts have no parameters, so those come from the earlier query of PostgreSQL."""
    reported: dict[tuple[str, str], list[ComparedValue]] = {}
    for row in earlier:
        if row.cluster and row.state != UNKNOWN:
            dated = replace(row, why=f"reported by PostgreSQL on {at:%Y-%m-%d %H:%M}")
            reported.setdefault((row.setting, row.key), []).append(dated)
    return [each for row in current for each in reported.get((row.setting, row.key), [row])]


def _is_parameter(item: PlannedChange) -> bool:
    return item.kind == "conf" and not item.wanted.startswith("$(")


def _rows(item: PlannedChange, reported: Sequence[Mapping[str, Any]], reason: str) -> list[ComparedValue]:
    if not _is_parameter(item):
        return [_row(item)]
    return [_of_cluster(item, cluster) for cluster in reported] or [_unknown(item, reason)]


def _unknown_reason(facts: Mapping[str, Any], was_asked: bool) -> str:
    """Return why no cluster has reported a value."""
    if not facts.get("clusters"):
        return "the host has no existing cluster: add its directory to pg_data_dirs and check the host"
    if was_asked:
        return "the host has no cluster of the PostgreSQL versions in the decision"
    return "read from PostgreSQL when you query the host"


def _of_cluster(item: PlannedChange, cluster: Mapping[str, Any]) -> ComparedValue:
    """Return the row of a parameter as one cluster reports it."""
    refused, name = cluster["refused"], str(cluster["name"])
    if refused:
        hint = f" ({refused['hint']})" if refused.get("hint") else ""
        return _unknown(item, f"{refused['message']}{hint}", name)
    if item.key not in cluster["settings"]:
        return _unknown(item, "the agent's account cannot read it: grant pg_read_all_settings to its role", name)
    row = cluster["settings"][item.key]
    if row is None:
        return ComparedValue(item.setting, item.key, item.wanted, "unknown parameter", DIFFERS, cluster=name)
    if row["source"] in NOT_ALL:
        return _unknown(item, f"{row['show']} from {row['source']}; values of other sessions are unknown", name)
    if row["pending_restart"]:
        shown = f"{row['show']}; another value takes effect after a restart"
        return ComparedValue(item.setting, item.key, item.wanted, shown, DIFFERS, cluster=name)
    if same(item.key, item.wanted, row):
        return ComparedValue(item.setting, item.key, item.wanted, str(row["show"]), SAME, cluster=name)
    return ComparedValue(item.setting, item.key, item.wanted, _where(row), DIFFERS, cluster=name)


def _where(row: Mapping[str, Any]) -> str:
    """Return the value in effect, and the line that sets it."""
    line = f" of {row['sourcefile']} line {row['sourceline']}" if row["sourcefile"] else f" ({row['source']})"
    return f"{row['show']}{line}"


def _row(item: PlannedChange) -> ComparedValue:
    why = UNREAD.get(item.kind, "")
    if not why and item.wanted.startswith("$("):
        why = "depends on which server is configured"
    if not why and item.present is None:
        why = "not in the facts of the host: query the host"
    if why:
        return _unknown(item, why)
    return ComparedValue(item.setting, item.key, item.wanted, item.present, SAME if item.same else DIFFERS)


def _unknown(item: PlannedChange, why: str, cluster: str = "") -> ComparedValue:
    return ComparedValue(item.setting, item.key, item.wanted, None, UNKNOWN, why, cluster)


def drift_state(host_rows: list[ComparedValue]) -> str:
    """Return the state of a host: DIFFERS if one value differs, else UNKNOWN if one is unknown."""
    states = {row.state for row in host_rows}
    return next((each for each in (DIFFERS, UNKNOWN) if each in states), SAME)

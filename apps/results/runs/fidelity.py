"""How much a run of a twin resembles production, statement by statement. SELECT only.

Fidelity is one number: the share of production's execution time in statements of the twin, times their resemblance, a
mean weighted by that time. The resemblance of a statement is the mean of three ratios, each the smaller by the larger:
of its share of all calls, of its rows per call, and of its shared blocks per call. Times are not part: hosts differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.campaigns.models import Campaign, Run, Twin
from apps.campaigns.twins.services import STEP, of_campaign

MOST_RUNS = 20  # of a campaign, whose lowest fidelity counts
_MARK = re.compile(r"/\* (s\d\d) \*/")
_NAMES = {
    "calls": ("calls",),
    "ms": ("total_exec_time", "total_time"),
    "rows": ("rows",),
    "blocks": ("shared_blks_hit", "shared_blks_read"),
    "temp": ("temp_blks_read", "temp_blks_written"),
    "wal_bytes": ("wal_bytes",),
}


@dataclass(frozen=True)
class Side:
    """A statement in production, or in a run of the twin: its share of the calls, and the rest per call."""

    calls: int
    calls_share: float
    calls_per_s: float
    ms: float
    rows: float
    blocks: float
    temp: float
    wal_bytes: float

    @property
    def calls_percent(self) -> float:
        return 100 * self.calls_share


@dataclass(frozen=True)
class Compared:
    """A statement in both. `share`: of production's time. `twin` is None if it did not run."""

    script: str
    text: str
    share: float
    production: Side
    twin: Side | None

    @property
    def sides(self) -> list[tuple[str, Side | None]]:
        return [("production", self.production), ("twin", self.twin)]

    @property
    def percent(self) -> float:
        """Of production's time."""
        return 100 * self.share

    @property
    def resemblance(self) -> float:
        """From 0 to 1."""
        if self.twin is None:
            return 0.0
        pairs = [
            (getattr(self.production, name), getattr(self.twin, name)) for name in ("calls_share", "rows", "blocks")
        ]
        return sum(_ratio(*pair) for pair in pairs) / len(pairs)


@dataclass(frozen=True)
class Fidelity:
    twin: Twin
    statements: list[Compared]
    left_out: list[dict[str, Any]]

    @property
    def covered(self) -> float:
        return self.twin.covered

    @property
    def percent(self) -> float:
        return 100 * self.value

    @property
    def resemblance(self) -> float:
        """Of the statements of the twin, weighted by production's time."""
        total = sum(each.share for each in self.statements)
        return sum(each.share * each.resemblance for each in self.statements) / total if total else 0.0

    @property
    def value(self) -> float:
        """From 0 to 1."""
        return self.covered * self.resemblance


def fidelity_of(run: Run) -> Fidelity | None:
    """Of a run of a twin whose statements were counted; None for any other."""
    campaign = run.campaign
    twin = of_campaign(campaign)
    file = run.artefacts.filter(path=f"out/{STEP}/postgresql.json").exclude(content=None).first() if twin else None
    if twin is None or file is None:
        return None
    told = json.loads(bytes(file.content or b"{}"))
    return compare(twin, told) if told.get("statements") else None


@dataclass(frozen=True)
class Lowest:
    """The lowest fidelity of the newest runs of a campaign, 0 to 1; None if none of them counted its statements."""

    twin: Twin
    value: float | None
    runs: int


def lowest(campaign: Campaign) -> Lowest | None:
    """None if the campaign does not run a twin."""
    twin = of_campaign(campaign)
    if twin is None:
        return None
    runs = campaign.runs.filter(outcome="ok").select_related("campaign__dataset")
    found = [each.value for run in runs.order_by("-position")[:MOST_RUNS] if (each := fidelity_of(run))]
    return Lowest(twin, min(found, default=None), len(found))


def badge(campaign: Campaign) -> str:
    """The lowest fidelity, for the verdict of a campaign; "" if it does not run a twin."""
    found = lowest(campaign)
    if found is None:
        return ""
    return "twin, fidelity unknown" if found.value is None else f"twin, fidelity {100 * found.value:.0f} %"


def compare(twin: Twin, told: Mapping[str, Any]) -> Fidelity:
    """`told`: what the collector postgresql counted during the step."""
    there = {each["script"]: _numbers(each, production=True) for each in twin.made}
    here: dict[str, dict[str, float]] = {}
    for row in told["statements"]:
        mark = _MARK.search(row["query"])
        if mark and mark[1] in there:
            found = here.setdefault(mark[1], dict.fromkeys(_NAMES, 0.0))
            for name, value in _numbers(row, production=False).items():
                found[name] += value
    calls_there, calls_here = (sum(each["calls"] for each in side.values()) for side in (there, here))
    statements = [
        Compared(
            each["script"],
            each["text"],
            each["share"],
            _side(there[each["script"]], calls_there, twin.seconds),
            _side(here[each["script"]], calls_here, told["seconds"]) if each["script"] in here else None,
        )
        for each in twin.made
    ]
    return Fidelity(twin, statements, twin.left_out)


def _numbers(row: Mapping[str, Any], *, production: bool) -> dict[str, float]:
    if production:
        return {name: float(row["hit"] + row["read"] if name == "blocks" else row[name]) for name in _NAMES}
    return {name: sum(float(row.get(column, 0)) for column in columns) for name, columns in _NAMES.items()}


def _side(numbers: Mapping[str, float], all_calls: float, seconds: float) -> Side:
    calls = numbers["calls"]
    per_call = {name: numbers[name] / calls if calls else 0.0 for name in _NAMES if name != "calls"}
    return Side(int(calls), calls / all_calls if all_calls else 0.0, calls / seconds if seconds else 0.0, **per_call)


def _ratio(one: float, other: float) -> float:
    """1 for equal numbers, and for two zeros."""
    return min(one, other) / max(one, other) if max(one, other) > 0 else 1.0

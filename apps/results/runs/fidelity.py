"""How much a run of a twin resembles production, statement by statement. SELECT only.

Fidelity is one number: the share of production's execution time that the statements of the twin cover, times their
resemblance. The resemblance of a statement is the mean of three ratios, smaller by larger: of its share of all calls,
of its rows per call, and of its shared blocks per call. That of a run is their mean, weighted by production's time.
Execution times are not compared, because hosts differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.campaigns.models import Artefact, Campaign, Run, Twin
from apps.campaigns.twins.preloading import MARK
from apps.campaigns.twins.services import STEP, of_campaign
from apps.results.runs import counters
from common.wording import counted

TRUSTED = 0.8  # below it, a verdict has a warning
MOST_RUNS = 20  # of a campaign: the lowest fidelity of the newest ones counts
COMPARED = ("calls_share", "rows", "blocks")
# The names of the figures, and the columns of pg_stat_statements in a run.
_COLUMNS = {
    "calls": ("calls",),
    "ms": ("total_exec_time", "total_time"),
    "rows": ("rows",),
    "blocks": ("shared_blks_hit", "shared_blks_read"),
    "temp": ("temp_blks_read", "temp_blks_written"),
    "wal_bytes": ("wal_bytes",),
}


@dataclass(frozen=True)
class Figures:
    """A statement in production, or in a run of the twin: its calls, and the rest per call."""

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
class ComparedStatement:
    """A statement in production and in the run. `share`: of production's time. `twin` is None if it did not run."""

    script: str
    text: str
    share: float
    production: Figures
    twin: Figures | None

    @property
    def rows(self) -> list[tuple[str, Figures | None]]:
        """Return the rows of the table on the page of the run."""
        return [("production", self.production), ("twin", self.twin)]

    @property
    def percent(self) -> float:
        """Return its share of production's time, in percent."""
        return 100 * self.share

    @property
    def resemblance(self) -> float:
        """From 0 to 1."""
        if self.twin is None:
            return 0.0
        ratios = [_ratio(getattr(self.production, name), getattr(self.twin, name)) for name in COMPARED]
        return sum(ratios) / len(ratios)


@dataclass(frozen=True)
class Fidelity:
    twin: Twin
    statements: list[ComparedStatement]

    @property
    def covered(self) -> float:
        return self.twin.covered

    @property
    def percent(self) -> float:
        return 100 * self.value

    @property
    def resemblance(self) -> float:
        """Return the mean over the twin's statements, weighted by production's time, from 0 to 1."""
        total = sum(statement.share for statement in self.statements)
        return sum(statement.share * statement.resemblance for statement in self.statements) / total if total else 0.0

    @property
    def value(self) -> float:
        """From 0 to 1."""
        return self.covered * self.resemblance


def fidelity_of(run: Run) -> Fidelity | None:
    """The fidelity of a run of a twin; None for any other run, and if its statements were not counted."""
    twin = of_campaign(run.campaign)
    counted = counters.of_step(run, STEP) if twin else None
    return _compare(twin, counted) if twin else None


@dataclass(frozen=True)
class Lowest:
    """The lowest fidelity of the newest of several runs, 0 to 1; None if the statements of none were counted."""

    twin: Twin
    value: float | None
    runs: int

    @property
    def badge(self) -> str:
        """Shown next to a verdict from these runs."""
        return "twin, fidelity unknown" if self.value is None else f"twin, fidelity {100 * self.value:.0f} %"

    @property
    def is_trusted(self) -> bool:
        return self.value is not None and self.value >= TRUSTED

    @property
    def sentence(self) -> str:
        load = f"The load is a twin of the database {self.twin.database}."
        if self.value is None:
            return f"{load} Its fidelity is unknown: no run counted its statements."
        at_least = "at least " if self.runs > 1 else ""
        doubt = "" if self.is_trusted else f" Below {100 * TRUSTED:.0f} %, the effect in production may differ."
        return f"{load} Its fidelity is {at_least}{100 * self.value:.0f} % in {counted(self.runs, 'run')}.{doubt}"


def lowest(campaign: Campaign) -> Lowest | None:
    """None if the campaign does not run a twin."""
    twin = of_campaign(campaign)
    return lowest_of(twin, campaign.runs.filter(outcome=Run.Outcome.OK).order_by("-position")) if twin else None


def lowest_of(twin: Twin, runs: QuerySet[Run]) -> Lowest:
    """The lowest fidelity of the first MOST_RUNS of these runs of the twin."""
    chosen = runs[:MOST_RUNS].values("pk")
    files = Artefact.objects.filter(run__in=chosen, path=counters.path_of(STEP)).exclude(content=None)
    values = [each.value for file in files if (each := _compare(twin, counters.read(file)))]
    return Lowest(twin, min(values, default=None), len(values))


def badge(campaign: Campaign) -> str:
    """The lowest fidelity, for the verdict of a campaign; "" if it does not run a twin."""
    result = lowest(campaign)
    return result.badge if result else ""


def _compare(twin: Twin, counted: dict[str, Any] | None) -> Fidelity | None:
    return (
        fidelity_of_statements(twin, counted["statements"], counted["seconds"])
        if counted and counted["statements"]
        else None
    )


def fidelity_of_statements(twin: Twin, statements: list[Mapping[str, Any]], seconds: float) -> Fidelity:
    """`statements`: rows of pg_stat_statements, counted for so many seconds of the step."""
    production = {statement["script"]: _of_production(statement) for statement in twin.made}
    in_run: dict[str, dict[str, float]] = {}
    for row in statements:
        mark = MARK.search(row["query"])
        if mark and mark[1] in production:
            sums = in_run.setdefault(mark[1], dict.fromkeys(_COLUMNS, 0.0))
            for name, columns in _COLUMNS.items():
                sums[name] += sum(float(row.get(column, 0)) for column in columns)
    calls_of_production, calls_of_run = (
        sum(counts["calls"] for counts in sums.values()) for sums in (production, in_run)
    )
    compared = [
        ComparedStatement(
            statement["script"],
            statement["text"],
            statement["share"],
            _figures(production[statement["script"]], calls_of_production, twin.seconds),
            _figures(in_run[statement["script"]], calls_of_run, seconds) if statement["script"] in in_run else None,
        )
        for statement in twin.made
    ]
    return Fidelity(twin, compared)


def _of_production(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(row["hit"] + row["read"] if name == "blocks" else row[name]) for name in _COLUMNS}


def _figures(sums: Mapping[str, float], all_calls: float, seconds: float) -> Figures:
    calls = sums["calls"]
    per_call = {name: sums[name] / calls if calls else 0.0 for name in _COLUMNS if name != "calls"}
    return Figures(int(calls), calls / all_calls if all_calls else 0.0, calls / seconds if seconds else 0.0, **per_call)


def _ratio(one: float, other: float) -> float:
    """1 for equal numbers, and for two zeros."""
    return min(one, other) / max(one, other) if max(one, other) > 0 else 1.0

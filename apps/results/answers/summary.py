"""The main figures of every measured step by level, in addition to the campaign's single metric. Only reads
(SELECT)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

import stats
from agents.workloads import WORKLOADS
from apps.campaigns.design import steps
from apps.campaigns.design.factors import varied_names
from apps.campaigns.models import Campaign, Run
from apps.results.answers.hosts import retries_of
from apps.results.answers.observations import MeasuredRun, joint_observations, observations
from apps.results.models import Measurement
from apps.results.queries import labels_of, runs_on

# A wider table of figures is transposed: one row per level.
MOST_COLUMNS = 8
LARGER = {"ns": (("ms", 1e6), ("us", 1e3)), "KiB/s": (("GiB/s", 1024.0**2), ("MiB/s", 1024.0))}
HEAD = ("level", "step", "figure", "unit", "better", "definition", "runs", "mean", "low", "high")


@dataclass(frozen=True)
class SummaryCell:
    """One figure at one level: number of runs, geometric mean, and 95 % interval.

    The arithmetic mean without an interval, if a run is not above zero. None if there are too few runs."""

    level: str
    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SummaryFigure:
    """A figure of a step, with a cell for each level in the order of the design."""

    step: str
    name: str
    unit: str
    better: str
    definition: str
    cells: list[SummaryCell]

    def readable(self) -> SummaryFigure:
        """Return the figure in the largest unit in which every mean is above one; for pages, because the raw ones
        are exact."""
        means = [cell.mean for cell in self.cells if cell.mean]
        for unit, factor in LARGER.get(self.unit, ()):
            if means and min(means) >= factor:
                return replace(self, unit=unit, cells=[_divided(cell, factor) for cell in self.cells])
        return self


def _divided(cell: SummaryCell, factor: float) -> SummaryCell:
    mean, low, high = (None if value is None else value / factor for value in (cell.mean, cell.low, cell.high))
    return SummaryCell(cell.level, cell.n, mean, low, high)


@dataclass(frozen=True)
class SummaryTable:
    """`figures` in the order of the steps, and within a step in the order in which its tool reports them."""

    factor_names: str
    levels: list[str]
    figures: list[SummaryFigure]

    @property
    def turned(self) -> bool:
        return len(self.levels) > MOST_COLUMNS

    @property
    def adds(self) -> bool:
        """Whether it has more figures than the table of the campaign's metric, which also has the latency."""
        return len(self.figures) > 2

    @property
    def shown(self) -> list[SummaryFigure]:
        return [figure.readable() for figure in self.figures]

    @property
    def by_level(self) -> list[tuple[str, list[SummaryCell]]]:
        shown = self.shown
        return [(level, [one.cells[place] for one in shown]) for place, level in enumerate(self.levels)]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> Iterable[list[Any]]:
        """Yield a line for each level and figure, for HEAD."""
        for place in range(len(self.levels)):
            for figure in self.figures:
                cell = figure.cells[place]
                description = [figure.step, figure.name, figure.unit, figure.better, figure.definition]
                yield [cell.level, *description, cell.n, cell.mean, cell.low, cell.high]


def summary_table(campaign: Campaign, host: int | None = None) -> SummaryTable:
    """Return the summary of one host, or of all together, each as a block. Two queries for any number of runs: the
    ok runs and their measurements."""
    ok = runs_on(campaign, host).filter(outcome=Run.Outcome.OK)
    runs = {run.pk: run for run in ok.only("campaign", "host", "cell", "block", "position", "retry_of")}
    measured = _measured(campaign)
    levels = labels_of(campaign, runs.values())
    identical = campaign.placement == Campaign.Placement.SPREAD
    retries = retries_of(runs.values())
    all_runs = {
        run.pk: MeasuredRun(run.label, 0.0, run.block, run.position, run.host_id, retries[run.pk])
        for run in runs.values()
    }
    figures = [_figure(key, measured[key], all_runs, levels, identical) for key in _main(campaign, measured)]
    return SummaryTable(factor_names=varied_names(campaign.factors), levels=levels, figures=figures)


Key = tuple[str, str]


class Measured(NamedTuple):
    """The columns of a measurement. With thousands of runs, this costs a quarter of model instances."""

    run: UUID
    step: str
    name: str
    value: float
    unit: str
    better: str
    definition: str


Values = dict[UUID, Measured]


def _measured(campaign: Campaign) -> dict[Key, Values]:
    """Return (step, name) -> run -> measurement, in the order in which the tools reported them."""
    rows = Measurement.objects.filter(run__campaign=campaign, run__outcome=Run.Outcome.OK).order_by("pk")
    measured: dict[Key, Values] = {}
    for row in map(Measured._make, rows.values_list(*Measured._fields)):
        measured.setdefault((row.step, row.name), {})[row.run] = row
    return measured


def _main(campaign: Campaign, measured: dict[Key, Values]) -> list[Key]:
    """Return the figures to show, step by step: the main figures of the kind; for an unknown kind the main figures
    of any kind, else all figures with a direction."""
    kinds = {step["name"]: step["kind"] for step in steps.measured(campaign.steps)}
    names = list(dict.fromkeys([*kinds, *(step for step, _ in measured)]))
    chosen: list[Key] = []
    for step in names:
        of_step = [key for key in measured if key[0] == step]
        kind = WORKLOADS.get(kinds.get(step, ""))
        candidates = [kind] if kind else list(WORKLOADS.values())
        main = [key for key in of_step if any(candidate.is_main(key[1]) for candidate in candidates)]
        chosen += main or [key for key in of_step if next(iter(measured[key].values())).better]
    return chosen


def _figure(
    key: Key, values: Values, runs: dict[UUID, MeasuredRun], levels: list[str], identical: bool
) -> SummaryFigure:
    """`runs`: without their values."""
    measured = [replace(runs[run], value=row.value) for run, row in values.items() if run in runs]
    has_ratios = all(run.value > 0 and np.isfinite(run.value) for run in measured)
    rows = joint_observations(measured, identical=identical) if has_ratios else observations(measured)
    first = next(iter(values.values()))
    definitions = ", ".join(sorted({row.definition for row in values.values()} - {""}))
    spread = _spread(rows)
    cells = [spread.get(level, SummaryCell(level, 0)) for level in levels]
    return SummaryFigure(key[0], key[1], first.unit, first.better, definitions, cells)


def _spread(rows: list[stats.Observation]) -> dict[str, SummaryCell]:
    if rows and all(row.value > 0 and np.isfinite(row.value) for row in rows):
        levels = stats.level_table(rows).levels
        return {one.level: SummaryCell(one.level, one.n, one.mean, *(one.interval or (None, None))) for one in levels}
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.level, []).append(row.value)
    return {level: SummaryCell(level, len(own), float(np.mean(own))) for level, own in values.items()}

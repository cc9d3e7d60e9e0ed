"""A campaign with what several topics of findings need. Only reads (SELECT)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

import stats
from apps.campaigns.design import factors, steps
from apps.campaigns.design.cells import MOST, cells, every
from apps.campaigns.design.factors import Cell
from apps.campaigns.models import Campaign, Run
from apps.campaigns.queries import median_s
from apps.results.answers import interim_analyses
from apps.results.answers.level_rows import measured_runs
from apps.results.answers.observations import joint_observations
from apps.results.answers.table import CampaignTable, LevelRow

NAMED = 5
Rows = Sequence[stats.Observation]


@dataclass(frozen=True)
class JudgedCampaign:
    """A campaign, its table, and what several topics need of them."""

    campaign: Campaign
    table: CampaignTable
    host: int | None

    @cached_property
    def metric(self) -> stats.Metric:
        return stats.Metric(self.table.metric, self.table.unit, self.table.better)  # type: ignore[arg-type]

    @cached_property
    def chosen(self) -> steps.Metric:
        return steps.metric(self.campaign.steps, self.campaign.compared)

    @cached_property
    def rows(self) -> Rows:
        """Every run that has the metric and counts in comparisons."""
        return self.observations({})

    def observations(self, values: Mapping[UUID, float]) -> Rows:
        """Return the runs of the table with these values, by default those of the metric; with several hosts, the
        mean of each."""
        measured = {
            level.label: [replace(point, value=values.get(point.run, point.value)) for point in level.points]
            for level in self.table.levels
        }
        return joint_observations(measured_runs(measured), identical=self.table.identical_hosts)

    def adjusted(self, comparison: stats.Comparison) -> stats.Comparison:
        """Return a comparison whose interval holds at any number of runs where those of the table do."""
        return interim_analyses.adjusted(comparison, self.table.unplanned_analysis)

    @property
    def is_running(self) -> bool:
        return self.table.unplanned_analysis == interim_analyses.RUNNING

    @cached_property
    def others(self) -> list[LevelRow]:
        return [level for level in self.table.levels if level.label != self.table.baseline and level.points]

    @cached_property
    def design(self) -> list[Cell]:
        """The combinations of levels; of an imported campaign, all possible ones."""
        of, listed = self.campaign, factors.read(self.campaign.factors)
        if of.kind == Campaign.Kind.IMPORTED:
            return every(listed) if math.prod(len(factor.levels) for factor in listed) <= MOST else []
        return cells(listed, of.design, of.cells, of.sample, of.seed)

    @cached_property
    def run_s(self) -> float | None:
        """The duration of a run."""
        runs = Run.objects.filter(campaign=self.campaign)
        return median_s(runs if self.host is None else runs.filter(host=self.host))

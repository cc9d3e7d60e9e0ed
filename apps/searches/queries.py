"""SELECT only: searches as lists, pages and API show them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, FloatField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from apps.campaigns import queries as campaigns
from apps.campaigns.models import Campaign, Run
from apps.results.answers.table import CampaignTable
from apps.results.runs.fidelity import badge
from apps.results.store.campaign_cache import Keeper
from apps.searches import budget, results, space
from apps.searches.constraints import Check, Confirmed, Constraint
from apps.searches.models import Round, Search, Trial
from common.wording import and_of
from stats.comparison.limits import BROKEN, MET, UNCERTAIN


def listed() -> QuerySet[Search]:
    """Each search with `spent`, its runs so far, `spent_minutes` of them, and `tried`, its number of trials."""
    runs = Run.objects.filter(budget.COUNTED, campaign__search_round__search=OuterRef("pk")).order_by()
    counted = runs.values("campaign__search_round__search").annotate(
        count=Count("pk"), minutes=Sum(budget.WALL_S) / Count("host", distinct=True) / 60.0
    )
    trials = Trial.objects.filter(search=OuterRef("pk")).order_by().values("search").annotate(count=Count("pk"))
    searches = Search.objects.select_related("campaign__host", "campaign__workload", "owner")
    return searches.annotate(
        spent=Coalesce(Subquery(counted.values("count")), 0),
        spent_minutes=Coalesce(Subquery(counted.values("minutes")), 0.0, output_field=FloatField()),
        tried=Coalesce(Subquery(trials.values("count")), 0),
    )


def of_team(team: int) -> Q:
    """Searches on a host of the team."""
    return Q(campaign__in=Campaign.objects.filter(campaigns.of_team(team)))


@dataclass(frozen=True)
class TrialRow:
    """A trial in a table: its values, its effect on the metric in percent, with the interval over all rounds, and its
    mean of the metric of each constraint."""

    trial: Trial
    values: dict[str, str]
    percent: float | None
    low: float | None
    high: float | None
    checks: list[Check]

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


def trial_rows(search: Search, trials: Iterable[Trial]) -> list[TrialRow]:
    """A row for each trial. No query for a search of `listed`."""
    varied, direction, limits = space.read(search.space), results.direction(search), results.constraints_of(search)
    return [_row(each, varied, direction, limits) for each in trials]


def _row(trial: Trial, varied: space.Space, direction: int, limits: list[Constraint]) -> TrialRow:
    values = {one.name: one.text(trial.values[one.name]) for one in varied.dimensions if one.name in trial.values}
    measured = {each["constraint"]: each["value"] for each in trial.checks}
    return TrialRow(trial, values, *change(trial, direction), [Check(each, measured.get(each.line)) for each in limits])


def change(trial: Trial, direction: int) -> tuple[float | None, float | None, float | None]:
    """(mean, low, high): change of the metric to the default, in percent. `direction`: see results.direction."""
    ends = sorted(_percent(end, direction) for end in (trial.low, trial.high) if end is not None)
    mean = None if trial.log_ratio is None else _percent(trial.log_ratio, direction)
    low, high = ends if len(ends) == 2 else (None, None)
    return mean, low, high


def as_line(row: TrialRow, names: Iterable[str]) -> list[object]:
    """A line of the CSV. `names`: the settings in the order of its columns."""
    trial = row.trial
    figures = [trial.blocks, row.percent, row.low, row.high]
    checks = [each["value"] for each in trial.checks] or [None] * len(trial.search.constraints)
    return [trial.number, trial.state, trial.reason, *figures, *checks, *(row.values.get(name, "") for name in names)]


def _percent(log_ratio: float, direction: int) -> float:
    return 100 * math.expm1(min(direction * log_ratio, 20.0))


@dataclass(frozen=True)
class Confirmation:
    """The confirming campaign, its table once it has finished, and the trials that it confirms."""

    campaign: Campaign
    table: CampaignTable | None
    candidates: list[TrialRow]
    limits: dict[str, list[Confirmed]]  # by label

    @property
    def findings(self) -> list[str]:
        """A verdict for each candidate, on metric and constraints."""
        levels = self.table.levels if self.table else []
        return [self._finding(level.label, level.sentence) for level in levels if level.sentence]

    def _finding(self, label: str, sentence: str) -> str:
        limits = self.limits.get(label, [])
        broken = [each.sentence for each in limits if each.verdict == BROKEN]
        uncertain = [each.sentence for each in limits if each.verdict == UNCERTAIN]
        if not broken and not uncertain:
            return sentence
        size = "No gain" if broken else "No certain gain"
        return f"{size}: {label} {and_of(broken or uncertain)}. Without constraints: {sentence}"

    @property
    def twin(self) -> str:
        """The badge of the twin that the verdicts rest on; "" if the load is not a twin."""
        return badge(self.campaign)

    @property
    def is_better(self) -> bool:
        """Whether a candidate is better or likely better, and meets all constraints."""
        levels = self.table.levels if self.table else []
        better = [level.label for level in levels if level.verdict in ("better", "direction_better")]
        return any(all(each.verdict == MET for each in self.limits.get(label, [])) for label in better)


def confirmation(search: Search) -> Confirmation | None:
    """The newest confirmation of a search, if it has one."""
    of_kind = search.rounds.filter(kind=Round.Kind.CONFIRMATION).select_related("campaign__workload")
    last = of_kind.order_by("-number").first()
    if last is None:
        return None
    labels = [level["label"] for level in last.campaign.factors[0]["levels"]]
    rows = [each for each in trial_rows(search, search.trials.all()) if each.trial.label in labels]
    ended = last.state == Round.State.DONE and last.campaign.state == Campaign.State.FINISHED
    table = Keeper(last.campaign).table() if ended else None
    return Confirmation(last.campaign, table, rows, results.confirmed_limits(search, last.campaign) if ended else {})

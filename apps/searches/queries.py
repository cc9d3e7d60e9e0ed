"""SELECT only: searches as lists, pages and API show them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, FloatField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from apps.campaigns import queries as campaigns
from apps.campaigns.models import Campaign, Run
from apps.results.answers.table import CampaignTable, LevelRow
from apps.results.runs.fidelity import badge
from apps.results.store.campaign_cache import CampaignCache
from apps.searches import budget, results, space
from apps.searches.constraints import ConfirmedConstraint, Constraint, MeasuredConstraint
from apps.searches.models import Round, Search, Trial
from common.verdicts import verdict
from common.wording import and_of
from stats.comparison.limits import BROKEN, MET, UNCERTAIN
from stats.comparison.pareto import Front

FRONT = ("on the front", "possibly on the front", "dominated")
Change = tuple[float | None, float | None, float | None]  # mean and its interval, in percent
NO_CHANGE: Change = (None, None, None)


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
    mean of the metric of each constraint. `second`: the effect on the second metric. `front`: its place against the
    Pareto front, see FRONT, and "" without."""

    trial: Trial
    values: dict[str, str]
    percent: float | None
    low: float | None
    high: float | None
    checks: list[MeasuredConstraint]
    second: Change = NO_CHANGE
    front: str = ""

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


def trial_rows(search: Search, trials: Iterable[Trial], front: Front[int] | None = None) -> list[TrialRow]:
    """A row for each trial. No query for a search of `listed`."""
    varied, limits, changes = space.read(search.space), results.constraints_of(search), changes_of(search)
    ranks = _ranks(front)
    return [_row(trial, varied, limits, changes(trial), ranks.get(trial.number, "")) for trial in trials]


def _row(trial: Trial, varied: space.Space, limits: list[Constraint], changes: list[Change], place: str) -> TrialRow:
    measured = {check["constraint"]: check["value"] for check in trial.checks}
    checks = [MeasuredConstraint(limit, measured.get(limit.line)) for limit in limits]
    return TrialRow(trial, varied.texts(trial.values), *changes[0], checks, (changes[1:] or [NO_CHANGE])[0], place)


def front_of(search: Search) -> Front[int] | None:
    """The Pareto front of its measured trials; None for a search with one metric. Three queries."""
    if not search.second_metric:
        return None
    # Read the trials first, so that the evidence includes theirs.
    measured = list(search.trials.filter(state=Trial.State.MEASURED).values_list("number", flat=True))
    return results.front(search, results.evidence(search), measured)


def front_ranks(search: Search) -> dict[int, str]:
    """Number of a measured trial -> its place against the Pareto front; empty for a search with one metric."""
    return _ranks(front_of(search))


def _ranks(front: Front[int] | None) -> dict[int, str]:
    if front is None:
        return {}
    groups = zip(FRONT, (front.best, front.possible, front.dominated), strict=True)
    return {number: place for place, numbers in groups for number in numbers}


def changes_of(search: Search) -> Callable[[Trial], list[Change]]:
    """A function from a trial to its change of each metric."""
    directions = [results.sign_of(objective) for objective in results.objectives(search)]

    def changes(trial: Trial) -> list[Change]:
        first = trial.log_ratio, trial.low, trial.high
        second = trial.second_log_ratio, trial.second_low, trial.second_high
        return [change(*figures, sign) for figures, sign in zip((first, second), directions, strict=False)]

    return changes


def change(log_ratio: float | None, low: float | None, high: float | None, direction: int) -> Change:
    """The change of a metric against the default. `direction`: see results.sign_of."""
    ends = sorted(_percent(end, direction) for end in (low, high) if end is not None)
    mean = None if log_ratio is None else _percent(log_ratio, direction)
    return (mean, ends[0], ends[1]) if len(ends) == 2 else (mean, None, None)


def as_line(row: TrialRow, names: Iterable[str]) -> list[object]:
    """A line of the CSV. `names`: the settings in the order of its columns."""
    trial = row.trial
    figures = [trial.blocks, row.percent, row.low, row.high]
    second = [*row.second, row.front] if trial.search.second_metric else []
    checks = [check["value"] for check in trial.checks] or [None] * len(trial.search.constraints)
    values = [row.values.get(name, "") for name in names]
    return [trial.number, trial.state, trial.reason, *figures, *second, *checks, *values]


def _percent(log_ratio: float, direction: int) -> float:
    return 100 * math.expm1(min(direction * log_ratio, 20.0))


@dataclass(frozen=True)
class Confirmation:
    """The confirming campaign, its table by each metric once it has finished, and the trials that it confirms."""

    campaign: Campaign
    tables: list[CampaignTable]
    candidates: list[TrialRow]
    limits: dict[str, list[ConfirmedConstraint]]  # by label

    @property
    def findings(self) -> list[str]:
        """A verdict for each candidate on each metric, and on the constraints."""
        rows = zip(*(table.levels for table in self.tables), strict=True)
        return [self._finding(level.label, text) for row in rows for level, text in self._sentences(row)]

    def _sentences(self, row: Sequence[LevelRow]) -> list[tuple[LevelRow, str]]:
        """The verdicts on a candidate; of two metrics, each verdict names its metric."""
        named = [
            (level, level.sentence if len(self.tables) == 1 else f"By {table.metric}: {level.sentence}")
            for table, level in zip(self.tables, row, strict=True)
        ]
        return [(level, text) for level, text in named if level.sentence]

    def _finding(self, label: str, sentence: str) -> str:
        limits = self.limits.get(label, [])
        broken = [limit.sentence for limit in limits if limit.verdict == BROKEN]
        uncertain = [limit.sentence for limit in limits if limit.verdict == UNCERTAIN]
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
        """Whether a candidate is better or likely better by a metric, worse by none, and meets all constraints."""
        rows = zip(*(table.levels for table in self.tables), strict=True)
        better = [row[0].label for row in rows if _is_gain([level.verdict for level in row])]
        return any(all(each.verdict == MET for each in self.limits.get(label, [])) for label in better)


def _is_gain(verdicts: Sequence[str]) -> bool:
    shown = [verdict(name) for name in verdicts]
    return any(one.is_better for one in shown) and not any(one.is_worse for one in shown)


def confirmation(search: Search) -> Confirmation | None:
    """The newest confirmation of a search, if it has one."""
    of_kind = search.rounds.filter(kind=Round.Kind.CONFIRMATION).select_related("campaign__workload")
    last = of_kind.order_by("-number").first()
    if last is None:
        return None
    labels = [level["label"] for level in last.campaign.factors[0]["levels"]]
    rows = [row for row in trial_rows(search, search.trials.all()) if row.trial.label in labels]
    ended = last.state == Round.State.DONE and last.campaign.state == Campaign.State.FINISHED
    metrics = results.metric_names(search) if ended else []
    tables = [CampaignCache(_by_metric(last.campaign, metric)).table() for metric in metrics]
    return Confirmation(last.campaign, tables, rows, results.confirmed_limits(search, last.campaign) if ended else {})


def _by_metric(campaign: Campaign, metric: str) -> Campaign:
    """A copy of the campaign with another metric. Do not save it."""
    same = copy.copy(campaign)
    same.metric = metric
    return same

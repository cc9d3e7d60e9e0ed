"""SELECT only: searches as lists, pages and API show them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.campaigns.design import steps
from apps.campaigns.models import Campaign, Run
from apps.campaigns.queries import median_s
from apps.results.answers.table import CampaignTable
from apps.results.store.campaign_cache import Keeper
from apps.searches import rounds, space
from apps.searches.models import Round, Search, Trial

RISKY = "risks data"


def listed() -> QuerySet[Search]:
    """Each with `spent`, its runs so far, and `tried`, its trials."""
    counted = Run.objects.filter(campaign__search_round__search=OuterRef("pk")).order_by()
    cost = counted.exclude(outcome=Run.Outcome.CANCELLED, started_at=None)
    spent = cost.values("campaign__search_round__search").annotate(count=Count("pk")).values("count")
    tried = Trial.objects.filter(search=OuterRef("pk")).order_by().values("search").annotate(count=Count("pk"))
    found = Search.objects.select_related("campaign__host", "campaign__workload", "owner")
    return found.annotate(spent=Coalesce(Subquery(spent), 0), tried=Coalesce(Subquery(tried.values("count")), 0))


def of_team(team: int) -> Q:
    """Searches on a host of the team."""
    from apps.campaigns import queries as campaigns

    return Q(campaign__in=Campaign.objects.filter(campaigns.of_team(team)))


@dataclass(frozen=True)
class Progress:
    """Runs that a search has used of its budget, and about how long the rest takes; None unless it goes on."""

    spent: int
    budget: int
    eta_s: float | None

    @property
    def left(self) -> int:
        return max(0, self.budget - self.spent)


def progress(search: Search) -> Progress:
    """Two queries. Before its first run has ended, a run takes what was estimated."""
    spent = rounds.spent_runs(search)
    ended = Run.objects.filter(campaign__search_round__search=search, state=Run.State.ENDED)
    if search.state != Search.State.RUNNING:
        return Progress(spent, search.budget_runs, None)
    open_runs = Run.objects.filter(campaign__search_round__search=search).exclude(state=Run.State.ENDED).count()
    each_s = median_s(ended) or search.run_s
    return Progress(spent, search.budget_runs, each_s * (max(0, search.budget_runs - spent) + open_runs))


@dataclass(frozen=True)
class TrialRow:
    """A trial in a table: its values, and its effect on the metric in percent, with the interval over all rounds."""

    trial: Trial
    values: dict[str, str]
    percent: float | None
    low: float | None
    high: float | None
    promising: bool

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


def trial_rows(search: Search, trials: Iterable[Trial]) -> list[TrialRow]:
    """No query for a search of `listed`."""
    found, sign = space.read(search.space), direction(search)
    return [_row(each, found, sign) for each in trials]


def _row(trial: Trial, found: space.Space, sign: int) -> TrialRow:
    values = {one.name: one.text(trial.values[one.name]) for one in found.dimensions if one.name in trial.values}
    ends = sorted(_percent(end, sign) for end in (trial.low, trial.high) if end is not None)
    mean = None if trial.log_ratio is None else _percent(trial.log_ratio, sign)
    low, high = ends if len(ends) == 2 else (None, None)
    promising = trial.state == Trial.State.MEASURED and trial.low is not None and trial.low > 0
    return TrialRow(trial, values, mean, low, high, promising)


def as_line(row: TrialRow, names: Iterable[str]) -> list[object]:
    """A line of a CSV; `names` of the settings in their order."""
    trial = row.trial
    figures = [trial.blocks, row.percent, row.low, row.high]
    return [trial.number, trial.state, trial.reason, *figures, *(row.values.get(name, "") for name in names)]


def direction(search: Search) -> int:
    """1 if a higher value of the metric is better, else -1."""
    better = steps.metric(search.campaign.steps, search.campaign.metric).better
    return -1 if better == "lower" else 1


def _percent(log_ratio: float, sign: int) -> float:
    return 100 * math.expm1(min(sign * log_ratio, 20.0))


@dataclass(frozen=True)
class Confirmation:
    """The campaign that decides, with its table once it has ended, and the values of its candidates."""

    campaign: Campaign
    table: CampaignTable | None
    candidates: list[TrialRow]

    @property
    def findings(self) -> list[str]:
        """A verdict for each candidate."""
        return [level.sentence for level in self.table.levels if level.sentence] if self.table else []

    @property
    def is_better(self) -> bool:
        """Whether any candidate is better, be its size uncertain."""
        levels = self.table.levels if self.table else []
        return any(level.verdict in ("better", "direction_better") for level in levels)


def confirmation(search: Search) -> Confirmation | None:
    """The newest; None before there is one."""
    of_kind = search.rounds.filter(kind=Round.Kind.CONFIRMATION).select_related("campaign__workload")
    last = of_kind.order_by("-number").first()
    if last is None:
        return None
    labels = [level["label"] for level in last.campaign.factors[0]["levels"]]
    rows = [each for each in trial_rows(search, search.trials.all()) if each.trial.label in labels]
    ended = last.state == Round.State.DONE and last.campaign.state == Campaign.State.FINISHED
    return Confirmation(last.campaign, Keeper(last.campaign).table() if ended else None, rows)

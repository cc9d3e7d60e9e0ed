"""SELECT only: what a search has spent of its budget, and what is left.

A budget is a number of runs, of minutes, or both: the one that ends first counts. Minutes are those in which runs
execute. Waiting for a host and pauses do not count, and hosts that run at the same time count once.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Avg, Count, ExpressionWrapper, F, Q, Sum
from django.db.models import DurationField as Duration
from django.db.models.functions import Coalesce, Extract, Now

from apps.campaigns.models import Campaign, Run
from apps.searches import strategy
from apps.searches.models import Search

COUNTED = ~Q(outcome=Run.Outcome.CANCELLED, started_at=None)  # runs that count towards the budget
_UNTIL_NOW = ExpressionWrapper(Coalesce(F("ended_at"), Now()) - F("started_at"), output_field=Duration())
WALL_S = Extract(_UNTIL_NOW, "epoch")  # of a run, so far if it is active


@dataclass(frozen=True)
class Budget:
    """`runs` and `seconds` are the limits, None without one. `run_s`: mean duration of its successful runs, until then
    the estimate from before its start. `hosts` run at the same time."""

    runs: int | None
    seconds: float | None
    spent_runs: int
    open_runs: int
    spent_s: float
    run_s: float
    hosts: int

    @property
    def left_runs(self) -> int:
        """Runs that fit into both limits."""
        by_runs = [] if self.runs is None else [self.runs - self.spent_runs]
        by_time = [] if self.seconds is None else [self.runs_in(self.seconds - self.spent_s) - self.open_runs]
        return max(0, min(by_runs + by_time))

    def runs_in(self, seconds: float) -> int:
        """How many runs take about this long."""
        return int(self.hosts * seconds / self.run_s + 1e-9)

    def seconds_of(self, runs: int) -> float:
        """About how long this many runs take."""
        return self.run_s * runs / self.hosts

    @property
    def remaining_s(self) -> float:
        """About how many seconds the search may still take."""
        return self.seconds_of(self.left_runs + self.open_runs)

    @property
    def used(self) -> float:
        """Share of the limit that is nearer to its end, from 0 to 1."""
        by_runs = [] if self.runs is None else [self.spent_runs / self.runs]
        by_time = [] if self.seconds is None else [self.spent_s / self.seconds]
        return min(1.0, max(by_runs + by_time))


def of(search: Search) -> Budget:
    """One query, and one more if the search has several hosts."""
    ok = Q(outcome=Run.Outcome.OK)
    spent = Run.objects.filter(COUNTED, campaign__search_round__search=search).aggregate(
        runs=Count("pk"),
        open=Count("pk", filter=~Q(state=Run.State.ENDED)),
        wall_s=Sum(WALL_S),
        run_s=Avg(WALL_S, filter=ok),
    )
    at_once = hosts(search)
    return Budget(
        runs=search.budget_runs,
        seconds=None if search.budget_minutes is None else 60.0 * search.budget_minutes,
        spent_runs=spent["runs"],
        open_runs=spent["open"],
        spent_s=float(spent["wall_s"] or 0) / at_once,
        run_s=max(1.0, float(spent["run_s"] or search.run_s)),
        hosts=at_once,
    )


def hosts(search: Search) -> int:
    """How many hosts run at the same time."""
    return 1 if search.campaign.placement == Campaign.Placement.ONE else 1 + search.campaign.further_hosts.count()


def sizes(search: Search) -> strategy.Sizes:
    """How many runs its rounds and its confirmation have. Several hosts run every block, or share them."""
    each = hosts(search) if search.campaign.placement == Campaign.Placement.EACH else 1
    finalists = len(search.picked) or search.finalists
    return strategy.Sizes(search.candidates, search.blocks, finalists, search.confirmation_blocks, each)

"""The budget of a search, in runs and in minutes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.campaigns.models import Campaign
from apps.searches import budget, services
from apps.searches.budget import Budget
from apps.searches.models import Round, Search
from common.errors import PlanError
from tests.rows.factories import make_campaign, make_host, make_search
from tests.rows.searched import advance, end_round, finish

pytestmark = pytest.mark.django_db
BOTH = Budget(runs=50, seconds=600.0, spent_runs=10, open_runs=0, spent_s=100.0, run_s=20.0, hosts=1)


def test_the_limit_that_ends_first_counts() -> None:
    assert BOTH.left_runs == 25  # 500 s of 20 s each
    assert replace(BOTH, seconds=6000.0).left_runs == 40
    assert replace(BOTH, runs=None).left_runs == 25
    assert replace(BOTH, seconds=None).left_runs == 40
    assert replace(BOTH, spent_s=700.0).left_runs == 0
    assert (BOTH.used, replace(BOTH, spent_s=300.0).used) == (0.2, 0.5)


def test_hosts_that_run_at_the_same_time_share_the_minutes() -> None:
    assert replace(BOTH, hosts=2, runs=None).left_runs == 50
    assert replace(BOTH, hosts=2).seconds_of(10) == 100.0


def test_the_remaining_time_covers_open_runs() -> None:
    assert replace(BOTH, open_runs=4).remaining_s == 25 * 20.0
    assert replace(BOTH, seconds=None, open_runs=4).remaining_s == 44 * 20.0


@pytest.mark.thorough
def test_a_search_that_runs_out_of_minutes_reserves_those_of_its_confirmation() -> None:
    search = make_search(budget_runs=None, budget_minutes=20)  # 1,200 s; a round takes 240 s, the confirmation 300 s
    while advance(search).state == Search.State.RUNNING:
        end_round(search, wall_s=30.0)

    assert search.rounds.filter(kind=Round.Kind.SEARCH).count() == 4  # the last has one candidate less
    assert search.rounds.filter(kind=Round.Kind.CONFIRMATION).count() == 1
    assert budget.of(search).spent_s <= 20 * 60


def test_runs_that_take_longer_than_estimated_leave_fewer_rounds() -> None:
    search = make_search(budget_runs=200, budget_minutes=60)
    advance(search)
    # 32 minutes; the 28 that are left are fewer than the confirmation needs
    end_round(search, lambda values: 1200.0 if values else 1000.0, wall_s=240.0)

    advance(search)

    assert search.rounds.last().kind == Round.Kind.CONFIRMATION  # type: ignore[union-attr]


def test_a_pause_uses_no_minutes() -> None:
    search = make_search(budget_runs=None, budget_minutes=60)
    advance(search)
    end_round(search)
    Search.objects.filter(pk=search.pk).update(created_at=timezone.now() - timedelta(days=3))

    assert budget.of(search).spent_s == pytest.approx(80.0, abs=1)


def test_minutes_of_hosts_that_run_at_the_same_time_count_once() -> None:
    hosts = [make_host("one"), make_host("two")]
    campaign = make_campaign(host=hosts[0], further_hosts=hosts[1:], placement=Campaign.Placement.EACH)
    search = make_search(campaign, budget_runs=None, budget_minutes=60)
    advance(search)
    end_round(search)

    assert search.rounds.get().campaign.runs.count() == 16
    assert budget.of(search).spent_s == pytest.approx(80.0, abs=1)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"budget_runs": None}, "a search needs a budget"),
        ({"budget_minutes": 1}, "1 is not a number of minutes from "),
        ({"budget_minutes": 1_000_000}, "1,000,000 is not a number of minutes from "),
    ],
)
def test_a_budget_that_does_not_hold_a_round_and_the_confirmation_is_refused(
    limits: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        make_search(**limits)


def test_minutes_are_added_to_a_budget_in_minutes_only() -> None:
    timed, counted = make_search(budget_runs=None, budget_minutes=60), make_search()

    services.extend_search(timed, by=timed.owner, minutes=30)

    assert (timed.budget_minutes, timed.budget_runs) == (90, None)
    with pytest.raises(PlanError, match="has no budget in minutes"):
        services.extend_search(counted, by=counted.owner, minutes=30)
    with pytest.raises(PlanError, match="nothing is added"):
        services.extend_search(timed, by=timed.owner)


def test_a_finished_search_is_extended_by_enough_of_both_limits() -> None:
    search = finish(make_search(budget_runs=40, budget_minutes=20))
    assert search.state == Search.State.FINISHED
    Search.objects.filter(pk=search.pk).update(budget_minutes=7)  # about 400 s of 10 s are spent
    search.refresh_from_db()

    with pytest.raises(PlanError, match="not a number of minutes from"):
        services.extend_search(search, by=search.owner, runs=50)

    services.extend_search(search, by=search.owner, runs=50, minutes=10)
    assert (search.state, search.budget_runs, search.budget_minutes) == (Search.State.RUNNING, 90, 17)

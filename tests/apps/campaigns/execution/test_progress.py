"""The progress of a campaign, and its remaining time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import queries, services
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution import schedule
from apps.campaigns.models import Campaign, Run
from apps.campaigns.queries import Progress, progress
from tests.rows.factories import end_run, make_campaign

pytestmark = pytest.mark.django_db


def test_a_draft_has_no_runs_and_no_end(django_assert_num_queries: Any) -> None:
    campaign = make_campaign()

    with django_assert_num_queries(1):
        current = progress(campaign)

    assert current == Progress(done=0, total=0, running=0, failed=0, read=0, eta_s=None)


def test_before_the_first_run_ends_the_estimate_is_the_plan_s(django_assert_num_queries: Any) -> None:
    campaign = make_campaign(Campaign.State.RUNNING)

    with django_assert_num_queries(4):  # runs, their specs, and their host's restarts and overheads
        current = progress(campaign)

    # Six runs of 2 s each, and 3 s around each.
    assert current == Progress(done=0, total=6, running=0, failed=0, read=0, eta_s=6 * 5.0)


def test_starting_a_campaign_does_not_change_the_estimate(tuner: User) -> None:
    past = make_campaign(Campaign.State.FINISHED)  # its runs took 10 s each, 8 s more than their steps
    draft = make_campaign(host=past.host, by=tuner)
    before_start = previews.preview(draft).seconds

    services.start_campaign(draft, by=tuner)

    (waiting,) = schedule.schedule(draft.host, timezone.now()).waiting
    assert progress(draft).eta_s == before_start == pytest.approx(6 * 10.0)
    assert waiting.runs * waiting.seconds == before_start
    assert queries.run_seconds(draft.runs.all()[0]) == pytest.approx(10.0)


def test_after_the_first_run_ends_the_estimate_is_the_median_wall_time(django_assert_num_queries: Any) -> None:
    campaign = make_campaign(Campaign.State.RUNNING)
    first, second, third, fourth, *_ = campaign.runs.order_by("position")
    for run, wall_s in ((first, 8.0), (second, 10.0), (third, 600.0)):
        end_run(run, wall_s=wall_s)
    Run.objects.filter(pk=fourth.pk).update(state=Run.State.RUNNING)

    with django_assert_num_queries(1):
        current = progress(campaign)

    assert current == Progress(done=3, total=6, running=1, failed=0, read=3, eta_s=pytest.approx(3 * 10.0))


@pytest.mark.parametrize(("since_s", "left_s"), [(4.0, 26.0), (60.0, 20.0)], ids=["under way", "late"])
def test_the_time_that_an_active_run_has_taken_is_subtracted(since_s: float, left_s: float) -> None:
    campaign = make_campaign(Campaign.State.RUNNING)
    first, second, third, fourth, *_ = campaign.runs.order_by("position")
    for run in (first, second, third):
        end_run(run, wall_s=10.0)
    began = timezone.now() - timedelta(seconds=since_s)
    Run.objects.filter(pk=fourth.pk).update(state=Run.State.RUNNING, started_at=began)

    assert progress(campaign).eta_s == pytest.approx(left_s, abs=1.5)


def test_failed_runs_are_counted_and_cancelled_ones_are_not_failed() -> None:
    campaign = make_campaign(Campaign.State.RUNNING)
    outcomes = [Run.Outcome.FAILED, Run.Outcome.NOT_IN_EFFECT, Run.Outcome.INTERRUPTED, Run.Outcome.CANCELLED]
    for run, outcome in zip(campaign.runs.order_by("position"), outcomes, strict=False):
        end_run(run, outcome)

    current = progress(campaign)

    assert (current.done, current.failed) == (4, 3)


def test_a_cancelled_run_that_never_began_has_no_wall_time() -> None:
    campaign = make_campaign(Campaign.State.RUNNING)
    run = end_run(campaign.runs.order_by("position")[0], Run.Outcome.CANCELLED)
    Run.objects.filter(pk=run.pk).update(started_at=None)

    assert progress(campaign).eta_s == 5 * 5.0


def test_at_the_end_nothing_is_left() -> None:
    assert progress(make_campaign(Campaign.State.FINISHED)).eta_s == 0


def test_only_retries_of_failed_runs_are_looked_up(django_assert_num_queries: Any) -> None:
    campaign = make_campaign(Campaign.State.FINISHED)
    failed, retried, *_ = campaign.runs.order_by("position")
    campaign.runs.filter(pk__in=(failed.pk, retried.pk)).update(outcome=Run.Outcome.FAILED)
    campaign.runs.filter(pk=campaign.runs.latest("position").pk).update(retry_of=retried)

    with django_assert_num_queries(1) as captured:
        (counted,) = queries.with_run_counts([campaign])

    assert counted.failed == 1  # type: ignore[attr-defined]
    assert "JOIN" not in captured[0]["sql"]  # a join looks up the retries of all runs

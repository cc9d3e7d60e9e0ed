"""A failed run can be retried: it remains, and only its retry counts."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.campaigns import lifecycle
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Campaign, Run
from apps.results import queries
from common.errors import PlanError
from tests.rows.factories import browser, end_run, make_campaign


@pytest.fixture
def finished(admin: User) -> Campaign:
    """Its third run failed."""
    campaign = make_campaign(Campaign.State.RUNNING, by=admin)
    for place, run in enumerate(campaign.runs.order_by("position")):
        end_run(run, Run.Outcome.FAILED if place == 2 else Run.Outcome.OK)
    campaign_end.close_campaign(campaign.pk)
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.FINISHED
    return campaign


@pytest.fixture
def api(admin: User) -> APIClient:
    return browser(admin)


def test_failed_runs_of_a_finished_campaign_can_be_retried(finished: Campaign, admin: User) -> None:
    failed = finished.runs.get(outcome=Run.Outcome.FAILED)

    assert lifecycle.retry_failed(finished, by=admin) == 1

    again = finished.runs.get(retry_of=failed)
    assert (finished.state, finished.ended_at) == (Campaign.State.RUNNING, None)
    assert (again.position, again.block, again.cell, again.digest) == (6, failed.block, failed.cell, failed.digest)
    assert again.next_tick_at is not None


def test_a_retry_takes_the_place_of_the_failed_run_in_the_statistics(finished: Campaign, admin: User) -> None:
    failed = finished.runs.get(outcome=Run.Outcome.FAILED)
    lifecycle.retry_failed(finished, by=admin)
    end_run(finished.runs.get(retry_of=failed))
    campaign_end.close_campaign(finished.pk)

    levels = queries.campaign_table(finished).levels

    assert [(level.ok, level.planned) for level in levels] == [(3, 3), (3, 3)]
    assert sum(level.not_ok for level in levels) == 1
    assert sorted(point.block for point in levels[0].points) == [0, 1, 2]


def test_a_run_is_retried_once_but_its_retry_can_be_retried(finished: Campaign, admin: User) -> None:
    lifecycle.retry_failed(finished, by=admin)
    with pytest.raises(PlanError, match="no failed run"):
        lifecycle.retry_failed(finished, by=admin)

    end_run(finished.runs.get(retry_of__isnull=False), Run.Outcome.FAILED)

    assert lifecycle.retry_failed(finished, by=admin) == 1


def test_two_simultaneous_retries_retry_once(finished: Campaign) -> None:
    failed = finished.runs.get(outcome=Run.Outcome.FAILED)
    lifecycle._retry(finished, [failed])

    with pytest.raises(IntegrityError, match="retried_once"), transaction.atomic():
        lifecycle._retry(finished, [failed])


def test_a_run_that_ended_well_is_not_retried(finished: Campaign, admin: User) -> None:
    well = finished.runs.filter(outcome=Run.Outcome.OK)[:1]

    with pytest.raises(PlanError, match="cannot be retried"):
        lifecycle.retry_failed(finished, by=admin, runs=well)


def test_a_cancelled_run_is_retried_only_when_it_is_named(finished: Campaign, admin: User, api: APIClient) -> None:
    run = finished.runs.get(outcome=Run.Outcome.FAILED)
    Run.objects.filter(pk=run.pk).update(outcome=Run.Outcome.CANCELLED)
    address = f"/api/v1/campaigns/{finished.pk}/retry/"

    assert api.post(address, {}, format="json").status_code == 400
    answer = api.post(address, {"runs": [str(run.pk)]}, format="json")

    assert (answer.status_code, answer.json()["state"]) == (200, "running")
    entry = api.get(f"/api/v1/campaigns/{finished.pk}/history/").json()[-1]
    assert (entry["who"], entry["what"], entry["detail"]) == ("ada", "retries failed runs", "run 3 will run again")


def test_a_campaign_with_failed_runs_is_not_plainly_finished_until_they_are_retried(
    finished: Campaign, admin: User
) -> None:
    client, plain = browser(admin), '<span aria-hidden="true">✓</span> finished'

    def pages() -> list[str]:
        addresses = [reverse("campaign_detail", args=[finished.pk]), reverse("campaign_list"), reverse("home")]
        return [client.get(address).content.decode() for address in addresses]

    assert ["finished, 1 failed" in page for page in pages()] == [True] * 3
    assert [plain in page for page in pages()] == [False] * 3

    lifecycle.retry_failed(finished, by=admin)
    end_run(finished.runs.get(retry_of__isnull=False))
    campaign_end.close_campaign(finished.pk)

    assert [plain in page for page in pages()] == [True] * 3
    assert ["1 run not ok" in page for page in pages()] == [False] * 3

"""Trials of earlier searches from which a new one learns."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Role
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign
from apps.hosts.models import Facts, Host
from apps.searches import earlier
from apps.searches.models import Search, Trial
from tests.rows.factories import browser, make_campaign, make_host, make_search, make_user, make_workload
from tests.rows.searched import BEST_KB, advance, end_round, finish

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign() -> Campaign:
    return make_campaign()


@pytest.fixture
def ended(campaign: Campaign) -> Search:
    return finish(make_search(campaign, budget_runs=26, blocks=1))


@pytest.mark.thorough
def test_a_warm_start_learns_from_trials_of_the_same_campaign_and_proposes_near_the_best(campaign: Campaign) -> None:
    ended = finish(make_search(campaign, budget_runs=60, blocks=1))
    search = make_search(ended.campaign, by=ended.owner, name="again", warm_start=True, candidates=6, seed=7)

    advance(search)

    assert len(search.earlier) == ended.trials.exclude(state="asked").count() > 5
    values = [each.values for each in search.trials.all()]
    assert sum(each["jit"] == "off" and BEST_KB / 16 < each["work_mem"] < BEST_KB * 16 for each in values) >= 4
    page = browser(ended.owner).get(reverse("searches_detail", args=[search.pk])).content.decode()
    assert "trials of earlier searches. They are not confirmed." in page


def change_kernel(host: Host) -> None:
    data = host.facts | {"kernel": {"release": "6.99.0"}}
    Facts.objects.create(host=host, number=99, digest="1" * 64, data=data)


@pytest.mark.thorough
def test_trials_from_before_a_change_of_the_host_are_left_out(ended: Search) -> None:
    count = ended.trials.exclude(state="asked").count()
    change_kernel(ended.campaign.host)

    search = make_search(ended.campaign, by=ended.owner, name="again", warm_start=True)

    [(reason, left_out)] = search.earlier_left_out.items()
    assert (search.earlier, left_out) == ([], count)
    assert reason.startswith("the host has changed: kernel.")
    client = browser(ended.owner)
    page = client.get(reverse("searches_detail", args=[search.pk])).content.decode()
    assert f"Left out: {count} ({reason})" in page
    body = client.get(f"/api/v1/searches/{search.pk}/").json()
    assert (body["earlier_trials"], body["earlier_left_out"]) == (0, {reason: count})


@pytest.mark.thorough
def test_only_the_trials_from_after_a_change_of_the_host_are_used(campaign: Campaign) -> None:
    search = make_search(campaign, budget_runs=60, blocks=1)
    advance(search)
    end_round(search)
    change_kernel(campaign.host)
    finish(search)
    before = {1, 2, 3}

    again = make_search(campaign, by=search.owner, name="again", warm_start=True)

    used = {each["trial"] for each in again.earlier}
    assert used and not used & before
    assert sum(again.earlier_left_out.values()) == len(before)


@pytest.mark.thorough
def test_trials_of_an_equal_workload_are_used_and_those_of_a_changed_one_are_left_out(ended: Search) -> None:
    base = ended.campaign
    assert base.workload
    renamed = workloads.save_workload("renamed", base.workload.steps, by=make_user(Role.TUNER))
    changed = make_workload(base.workload.name, clients=3)

    equal = make_search(make_campaign(host=base.host, workload=renamed), name="equal", warm_start=True)
    other = make_search(make_campaign(host=base.host, workload=changed), name="other", warm_start=True)

    assert equal.earlier
    assert (other.earlier, list(other.earlier_left_out)) == ([], [earlier.OTHER.format("workload")])


@pytest.mark.thorough
def test_trials_that_were_not_checked_against_a_constraint_are_left_out(ended: Search) -> None:
    limited = make_search(
        ended.campaign, by=ended.owner, name="limited", warm_start=True, constraints=["latency_avg <= 100 ms"]
    )

    assert (limited.earlier, list(limited.earlier_left_out)) == ([], [earlier.UNCHECKED])


@pytest.mark.thorough
def test_trials_that_met_the_same_constraint_are_used(campaign: Campaign) -> None:
    limits = ["latency_avg <= 2.5 ms"]
    first = finish(make_search(campaign, budget_runs=60, blocks=1, constraints=limits))

    second = make_search(campaign, by=first.owner, name="again", warm_start=True, constraints=limits)

    states = {each.number: each.state for each in first.trials.all()}
    assert {states[each["trial"]] for each in second.earlier} == {Trial.State.MEASURED}
    broken = sum(state == Trial.State.BREAKS_LIMIT for state in states.values())
    assert second.earlier_left_out == {earlier.BREAKS: broken} and broken


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        {"space": ["jit on, off"]},
        {"space": ["work_mem 2GB to 3GB log", "jit on, off"]},
        {"warm_start": False},
    ],
)
def test_trials_outside_of_the_space_are_not_used_nor_any_without_a_request(
    ended: Search, change: dict[str, Any]
) -> None:
    search = make_search(ended.campaign, by=ended.owner, name="again", **{"warm_start": True} | change)

    assert search.earlier == []


@pytest.mark.thorough
def test_trials_of_another_host_or_of_a_running_search_are_not_used(ended: Search) -> None:
    elsewhere = make_search(make_campaign(host=make_host("other")), by=ended.owner, name="other", warm_start=True)
    Search.objects.filter(pk=ended.pk).update(state=Search.State.RUNNING)
    beside = make_search(ended.campaign, by=ended.owner, name="beside", warm_start=True)

    assert elsewhere.earlier == beside.earlier == []

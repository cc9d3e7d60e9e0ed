"""A host that changes between two runs of a campaign: one sentence on its pages and in the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import queries
from apps.campaigns.execution.ensemble import Ensemble
from apps.campaigns.models import Campaign, Run
from apps.hosts import contact
from apps.hosts.models import Host
from tests.rows.factories import browser, make_campaign, make_host
from tests.servers import campaigns, machine

UPGRADED = machine.facts(kernel=machine.kernel(release="6.12.57-amd64"))
RENAMED = machine.facts(hostname="bench-07")
SENTENCE = (
    "The host changed between run 2 and run 3: kernel.release 6.12.48-amd64 → 6.12.57-amd64. "
    "Runs before and after a change are not directly comparable."
)


def ran(*facts: dict[str, Any]) -> Campaign:
    """A campaign whose runs, in their order, found these facts; those without any still wait."""
    campaign = make_campaign(Campaign.State.RUNNING, host=make_host(facts=machine.facts()), repetitions=3)
    for place, run in enumerate(campaign.runs.order_by("position")[: len(facts)]):
        run.facts = contact.record_facts(campaign.host, facts[place])
        run.started_at = timezone.now() + timedelta(seconds=place)
        run.save()
    return campaign


def test_a_host_that_stays_as_it_is_is_not_mentioned(db: None) -> None:
    campaign = ran(machine.facts(), machine.facts(boot_id="b2"), RENAMED)

    assert queries.breaks(campaign.pk) == []


def test_a_kernel_change_is_shown_between_the_runs_around_it(db: None) -> None:
    campaign = ran(machine.facts(), machine.facts(), UPGRADED, UPGRADED)
    runs = list(campaign.runs.order_by("position"))

    (change,) = queries.breaks(campaign.pk)

    assert (change.before, change.after, change.sentence) == (runs[1].pk, runs[2].pk, SENTENCE)
    assert [len(queries.breaks_at(run)) for run in runs] == [0, 1, 1, 0, 0, 0]


def test_a_change_that_is_taken_back_is_two(db: None) -> None:
    campaign = ran(machine.facts(), UPGRADED, machine.facts())

    assert [host_break.before_position for host_break in queries.breaks(campaign.pk)] == [0, 1]


def test_waiting_runs_show_no_host_change(db: None) -> None:
    campaign = ran(UPGRADED)

    assert queries.breaks(campaign.pk) == []


def test_pages_and_api_show_a_host_change(client: Client, viewer: User) -> None:
    campaign = ran(machine.facts(), machine.facts(), UPGRADED)
    first, second, third = campaign.runs.order_by("position")[:3]
    client.force_login(viewer)

    def shows_change(name: str, pk: Any) -> bool:
        return "The host changed" in client.get(reverse(name, args=[pk])).content.decode()

    assert (
        shows_change("campaign_detail", campaign.pk)
        and shows_change("run_detail", second.pk)
        and shows_change("run_detail", third.pk)
    )
    assert not shows_change("run_detail", first.pk)
    (change,) = browser(viewer).get(f"/api/v1/campaigns/{campaign.pk}/").json()["host_changes"]
    assert (change["before"], change["after"], change["sentence"]) == (str(second.pk), str(third.pk), SENTENCE)
    assert change["changes"] == [{"path": "kernel.release", "before": "6.12.48-amd64", "after": "6.12.57-amd64"}]
    run = browser(viewer).get(f"/api/v1/runs/{third.pk}/").json()
    assert (run["facts"], run["host_changes"]) == (3, [change])


def test_several_changes_of_a_host_are_one_banner(client: Client, viewer: User) -> None:
    campaign = ran(machine.facts(), UPGRADED, machine.facts())
    client.force_login(viewer)

    html = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()

    assert html.count("The host changed") == 1
    assert "The host changed 2 times between runs: kernel.release." in html
    assert "kernel.release 6.12.48-amd64 → 6.12.57-amd64" in html
    assert "kernel.release 6.12.57-amd64 → 6.12.48-amd64" in html


@pytest.mark.django_db(transaction=True)
def test_a_run_keeps_the_facts_that_were_read_right_before_it(host: Host, admin: User) -> None:
    campaign = campaigns.start(host, admin, time_s=1)
    planned = campaign.runs.get().facts
    assert planned is not None
    planned.data = machine.facts()
    planned.digest = "of another host"
    planned.save()

    run = campaigns.finish(campaign).runs.get()

    assert run.facts is not None and run.facts.number == planned.number + 1
    assert run.facts.data["machine_id"] == host.machine_id
    assert run.facts.taken_at < run.events.order_by("seq")[0].at


@pytest.mark.django_db(transaction=True)
def test_a_run_that_the_agent_had_before_keeps_the_facts_of_its_start(host: Host, admin: User) -> None:
    run: Run = campaigns.start(host, admin).runs.get()

    class Link:
        hello = {"busy": None, "dirty": [], "sealed": [str(run.pk)]}

        def call(self, verb: str, **_: Any) -> Any:
            raise AssertionError(f"{verb} was called")

    facts = Ensemble(run).own.ask_facts(Link())  # type: ignore[arg-type]  # all that it needs of a link

    assert facts is None, "those of its start stay with it"

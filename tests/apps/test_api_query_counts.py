"""The number of queries of each list of the API is fixed, and does not grow with its rows."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Channel, Delivery, Membership, Team, User
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent, RunPart, Schedule, Slot
from apps.decisions.models import Comment, Decision, Event
from apps.hosts.models import Facts, Trouble
from apps.results.models import Import, Pin, Series
from apps.searches import rounds
from apps.tuning.services import revise
from tests.rows.factories import (
    browser,
    end_run,
    issue_token,
    make_campaign,
    make_copy,
    make_host,
    make_profile,
    make_recipe,
    make_schedule,
    make_search,
    make_twin,
)

# Two of each are the session and its user. Results and summary are computed here, and kept: a savepoint, its release,
# and what finds out that they are not there yet; tests/apps/results/answers/test_answer_cache.py counts those that are.
BASELINE = {
    "version/": 2,
    "palette/": 2,
    "hosts/": 3,
    "hosts/{host}/": 5,
    "hosts/{host}/queue/": 7,
    "hosts/{host}/baselines/": 4,
    "hosts/{host}/facts/history/": 4,
    "troubles/": 3,
    "hosts/{host}/facts/diff/": 6,
    "identities/": 3,
    "profiles/": 4,
    "profiles/{profile}/revisions/": 5,
    "workloads/": 3,
    "recipes/": 3,  # they are few, and come whole
    "datasets/": 3,
    "datacopies/": 3,
    "twins/": 3,
    "campaigns/": 3,
    "campaigns/{campaign}/": 6,
    "campaigns/{campaign}/history/": 4,
    "campaigns/{campaign}/hosts/": 5,
    "campaigns/{campaign}/results/": 9,
    "campaigns/{campaign}/summary/": 9,
    "campaigns/{campaign}/judgements/": 15,
    "compare/?of=level:{campaign}:1 cpu&of=level:{campaign}:2 cpus": 26,
    "schedules/": 3,
    "schedules/{schedule}/": 3,
    "schedules/{schedule}/slots/": 4,
    "searches/": 3,
    "searches/{search}/": 5,
    "searches/{search}/rounds/": 4,
    "searches/{search}/importance/": 4,
    "searches/{search}/trials/": 4,
    "runs/?campaign={campaign}": 3,
    "runs/{run}/": 4,
    "runs/{run}/events/": 5,
    "artefacts/?run={run}": 3,
    "runparts/?run={run}": 3,
    "measurements/?campaign={campaign}": 3,
    "series/?campaign={campaign}": 3,
    "imports/": 3,
    "pins/": 3,
    "decisions/": 4,
    "decisions/{decision}/": 6,
    "decisions/{decision}/comments/": 5,
    "decisions/{decision}/events/": 5,
    "tokens/": 3,
    "ci-jobs/": 3,
    "sessions/": 3,
    "users/": 3,
    "teams/": 4,
    "channels/": 3,
    "deliveries/": 3,
}


class World:
    """Rows of every kind, and more of them on demand."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.campaign = self.grow()
        self.run = self.campaign.runs.order_by("position")[0]
        self.profile = make_profile(by=user).profile
        self.decision = Decision.objects.first()

    def grow(self, repetitions: int = 1) -> Campaign:
        campaign = make_campaign(Campaign.State.FINISHED, by=self.user, host=make_host(), repetitions=repetitions)
        for run in campaign.runs.all():
            self._fill(run)
        Trouble.objects.create(host=campaign.host, run=uuid4(), kind=Trouble.Kind.CONFLICT)
        decision = Decision.objects.create(campaign=campaign, author=self.user, title="t", decision="d", evidence={})
        decision.hosts.add(campaign.host)
        Comment.objects.create(decision=decision, author=self.user, text="yes")
        Import.objects.create(digest=uuid4().hex, title="old.zip", created_by=self.user, campaign=campaign)
        address = f"/runs/{campaign.runs.order_by('position')[0].pk}/"
        Pin.objects.create(title="p", address=address, chart="time", position=1, by=self.user)
        make_profile(by=self.user)
        make_recipe(by=self.user)
        self._schedule(campaign)
        self.search = make_search(campaign, by=self.user)
        rounds.settle(self.search.pk, timezone.now())
        make_copy(host=campaign.host, by=self.user)
        make_twin(by=self.user)
        issue_token(self.user, "t", self.user.role)
        Membership.objects.create(team=Team.objects.create(name=campaign.name), user=self.user)
        name = f"channel {Channel.objects.count()}"
        channel = Channel.objects.create(name=name, owner=self.user, kind="mail", address="t@example.org")
        Delivery.objects.create(channel=channel, kind="test", subject="s", payload={})
        return campaign

    def _schedule(self, campaign: Campaign) -> None:
        self.schedule = make_schedule(campaign, by=self.user)
        for hours in range(Schedule.objects.count()):
            at = campaign.created_at + timedelta(hours=hours)
            Slot.objects.create(schedule=self.schedule, at=at, outcome=Slot.Outcome.MISSED, decided_at=at)

    def _fill(self, run: Run) -> None:
        RunEvent.objects.create(run=run, seq=run.events.count() + 1, at=run.ended_at, kind="log", data={})
        Artefact.objects.create(run=run, path=f"out/{run.artefacts.count()}", size=0, sha256="")
        Series.objects.create(run=run, step=str(run.series.count()), source="cpu", columns=["t"])
        RunPart.objects.create(run=run, host=run.host, role="server", position=run.parts.count(), spec=run.spec)

    def more(self) -> None:
        """More rows in every list, and more below each row."""
        for _ in range(3):
            self.grow(repetitions=2)
            self._fill(self.run)
            self._another_run()
            number = self.campaign.host.facts_history.count() + 1
            Facts.objects.create(host=self.campaign.host, number=number, digest="", data={"n": number})
            revise(self.profile, {"cpu_affinity": {"server": f"0-{number}"}}, by=self.user)
            Comment.objects.create(decision=self.decision, author=self.user, text="but")
            Event.objects.create(decision=self.decision, kind="renewed", by=self.user, host=self.campaign.host)

    def _another_run(self) -> None:
        position = self.campaign.runs.count()
        like = {name: getattr(self.run, name) for name in ("host", "cell", "spec", "digest")}
        end_run(Run(campaign=self.campaign, position=position, block=position, **like))

    def path(self, template: str) -> str:
        keys = {
            name: getattr(self, name).pk for name in ("campaign", "run", "profile", "decision", "schedule", "search")
        }
        return "/api/v1/" + template.format(host=self.campaign.host_id, **keys)


def count(path: str, by: User) -> int:
    """Queries of a first request: what an answer keeps for later ones is taken back."""
    client = browser(by)
    cache.clear()
    with transaction.atomic():
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200, path
        transaction.set_rollback(True)
    return len(captured)


@pytest.mark.thorough
def test_more_rows_take_no_more_queries(tuner: User) -> None:
    world = World(tuner)
    few = {address: count(world.path(address), tuner) for address in BASELINE}

    world.more()

    assert few == BASELINE
    assert {address: count(world.path(address), tuner) for address in BASELINE} == few


def test_each_list_is_in_the_baseline() -> None:
    from tests.apps.accounts.test_api_roles import ALL

    lists = {each.room for each in ALL if each.name.endswith(".list")} - {"Setting"}
    counted = {template.split("/")[0] for template in BASELINE}

    odd = {
        "Identity": "identities",
        "DataCopy": "datacopies",
        "Series": "series",
        "Delivery": "deliveries",
        "OnHosts": "campaigns",
        "Baselines": "hosts",
        "Searches": "searches",
        "TrustedJob": "ci-jobs",
    }
    assert {odd.get(room, f"{room.lower()}s") for room in lists} <= counted

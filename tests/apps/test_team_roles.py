"""Every writing endpoint on objects of teams, by users with the role in the team or elsewhere.

Which those are, the viewsets say (`of_teams`); one that acts on such a thing and is in neither table fails here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone

from apps.accounts.models import Membership, Owned, Role, Team, User
from apps.campaigns.models import Campaign
from apps.decisions.models import Decision
from apps.hosts.models import Host, Trouble
from apps.hosts.pages.views import ACTIONS
from apps.hosts.usage import remote_servers
from apps.tuning.services import create_profile
from tests.apps.accounts.test_api_roles import ALL, WRITERS, Endpoint
from tests.rows import filled
from tests.rows.factories import (
    browser,
    make_campaign,
    make_copy,
    make_host,
    make_schedule,
    make_search,
    make_twin,
    make_user,
    make_workload,
)

# Of the instance: they change objects without a team, or those of the user.
OF_HOUSE = {
    *("Identity.create", "Identity.set_certificate"),
    "Recipe.create",
    "Recipe.destroy",
    *("Import.create", "Import.say", "Import.commit", "Import.destroy"),
    *("Pin.create", "Pin.partial_update", "Pin.move", "Pin.destroy"),
    *("Feed.create", "Feed.destroy", "Token.create", "Token.destroy", "Token.rotate", "Session.destroy"),
    "TrustedJob.destroy",
    *("User.create", "User.partial_update"),
    *("Team.create", "Team.destroy"),
    *("Channel.create", "Channel.partial_update", "Channel.test", "Channel.renew_secret", "Delivery.retry"),
}
# Rooms whose rows are a team's, through their host where they have no team of their own.
ROOMS = {
    *("Host", "Trouble", "Profile", "Workload", "DataSet", "DataCopy", "Twin", "Campaign", "Run", "RunPart"),
    "Decision",
}
REMOTE: dict[str, Any] = {"addresses": ["127.0.0.1"], "user": "loader", "sslmode": "require", "password": "s3cret"}


@dataclass(frozen=True)
class World:
    """A team with one object of each kind; `by` is the instance admin who created them."""

    team: Team
    other: Team
    by: User
    host: Host
    campaign: Campaign
    decision: Decision
    rows: dict[str, Any]


Body = Callable[[World], dict[str, Any]]


def nothing(world: World) -> dict[str, Any]:
    return {}


def on_host(world: World) -> dict[str, Any]:
    return {"host": world.host.pk}


def _new_host(world: World) -> dict[str, Any]:
    reached = {"address": "127.0.0.1", "user": "dba", "identity": world.host.identity_id}
    return {"name": "fresh", "team": world.team.pk, **reached}


def _cluster(world: World) -> dict[str, Any]:
    return {"data_dir": "/var/lib/postgresql/17/main", "may": "restart"}


UPLOADS = ("Twin.create",)
PAGES_OF_CAMPAIGN = ("extend", "checks", "rename")
# What each has to be sent to get as far as the rule.
OF_TEAMS: dict[str, Body] = {
    "Host.create": _new_host,
    "Host.partial_update": lambda world: {"labels": ["oltp"]},
    "Host.fetch_host_key": nothing,
    "Host.approve_host_key": lambda world: {"fingerprint": "SHA256:x"},
    "Host.check": nothing,
    "Host.reserve": lambda world: {"until": (timezone.now() + timedelta(hours=1)).isoformat(), "reason": "firmware"},
    "Host.give_up": nothing,
    "Host.destroy": nothing,
    "Host.release": nothing,
    "Host.allow_cluster": _cluster,
    "Host.forbid_cluster": _cluster,
    "Host.save_remote_server": lambda world: {"name": "another", **REMOTE},
    "Host.check_remote_server": lambda world: {"name": "shop"},
    "Host.remove_remote_server": lambda world: {"name": "shop"},
    "Host.allow_path": lambda world: {"path": "/data01", "kind": "directory"},
    "Host.forbid_path": lambda world: {"path": "/data01"},
    "Host.restore": nothing,
    "Host.install_units": nothing,
    "Host.uninstall_units": nothing,
    "Trouble.dismiss": nothing,
    "Profile.create": lambda world: {"name": "ours", "settings": {}, "team": world.team.pk},
    "Profile.revise": lambda world: {"settings": {}},
    "Profile.ask": on_host,
    "Workload.create": lambda world: {"name": "ours", "kind": "pgbench", "options": {}, "team": world.team.pk},
    "Workload.check": on_host,
    "DataSet.create": lambda world: {"name": "ours", "options": {"scale": 1}, "team": world.team.pk},
    "DataSet.prepare": on_host,
    "DataCopy.remove": nothing,
    "Twin.create": lambda world: {"name": "ours", "team": world.team.pk, "file": ContentFile(b"{}", "a.jsonl")},
    "Campaign.create": lambda world: {"recipe": "cpu-scaling", "host": world.host.pk},
    "Campaign.start": nothing,
    "Campaign.cancel": nothing,
    "Campaign.pause": nothing,
    "Campaign.resume": nothing,
    "Campaign.clone": nothing,
    "Campaign.extend": lambda world: {"repetitions": 1},
    "Campaign.retry": nothing,
    "Campaign.partial_update": lambda world: {"name": "renamed"},
    "Campaign.archive": nothing,
    "Campaign.unarchive": nothing,
    "Campaign.destroy": nothing,
    "Campaign.priority": lambda world: {"priority": 5},
    "Campaign.ask_hosts": nothing,
    "Schedule.create": lambda world: {"campaign": str(world.campaign.pk), "name": "n", "when": "daily 02:30"},
    "Schedule.partial_update": lambda world: {"when": "daily 03:30"},
    "Schedule.destroy": nothing,
    "Schedule.pause": nothing,
    "Schedule.resume": nothing,
    "Searches.create": lambda world: {
        "campaign": str(world.campaign.pk),
        "name": "n",
        "space": ["jit on, off"],
        "budget_runs": 99,
    },
    "Searches.pause": nothing,
    "Searches.resume": nothing,
    "Searches.stop": nothing,
    "Searches.extend": lambda world: {"runs": 9},
    "Searches.change": lambda world: {"add": ["geqo on, off"]},
    "Searches.pick": lambda world: {"trials": []},
    "Run.cancel": nothing,
    "Run.give_up": nothing,
    "Decision.create": lambda world: {
        "campaign": str(world.campaign.pk),
        "title": "Two cpus",
        "decision": "We take two.",
        "team": world.team.pk,
    },
    "Decision.accept": nothing,
    "Decision.reject": nothing,
    "Decision.withdraw": nothing,
    "Decision.renew": nothing,
    "Decision.confirm": nothing,
    "Decision.ask_drift": on_host,
    "Decision.comment": lambda world: {"text": "Not on this kernel."},
    "Team.partial_update": lambda world: {"private": True},
    "Team.set_member": lambda world: {"user": world.by.pk, "role": "viewer"},
    "Team.remove_member": nothing,
    "Team.hand_over": lambda world: {"kind": "host", "name": world.host.name, "team": world.team.pk},
}


@pytest.fixture
def world(db: None) -> World:
    return filled.once(make_world)


def make_world() -> World:
    admin = make_user(Role.ADMIN)
    team, other = (Team.objects.create(name=name) for name in ("storage", "network"))
    host = make_host(team=team)
    remote_servers.register(host, "shop", by=admin, **REMOTE)
    workload = make_workload(by=admin)
    type(workload).objects.filter(pk=workload.pk).update(team=team)
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, host=host, workload=workload)
    decision = Decision.objects.create(
        campaign=campaign, author=admin, title="t", decision="d", evidence={}, team=team, settings={}
    )
    decision.hosts.add(host)
    copy = make_copy(host=host, by=admin)
    rows = {
        "Host": host.pk,
        "Trouble": Trouble.objects.create(host=host, run=campaign.pk, kind=Trouble.Kind.CONFLICT).pk,
        "Profile": create_profile("direct-io", {"cpu_affinity": {"server": "0"}}, team=team, by=admin).profile_id,
        "Workload": workload.pk,
        "DataSet": copy.dataset_id,
        "DataCopy": copy.pk,
        "Twin": make_twin(by=admin).pk,
        "Campaign": campaign.pk,
        "Run": campaign.runs.all()[0].pk,
        "Schedule": make_schedule(campaign, by=admin).pk,
        "Searches": make_search(campaign, by=admin).pk,
        "Decision": decision.pk,
        "Team": team.pk,
    }
    return World(team, other, admin, host, campaign, decision, rows)


def somebody(world: World, *, house: Role = Role.VIEWER, here: Role | None = None, there: Role | None = None) -> User:
    """With a role in the house, in the world's team, and in the other one."""
    user = make_user(house)
    for team, role in ((world.team, here), (world.other, there)):
        if role:
            Membership.objects.create(team=team, user=user, role=role)
    return user


def send(endpoint: Endpoint, world: World, user: User) -> Any:
    keys = dict.fromkeys(endpoint.keys, world.rows[endpoint.room])
    if "user" in endpoint.keys:
        keys["user"] = world.by.pk
    url = reverse(endpoint.url_name, kwargs=keys)
    sent = "multipart" if endpoint.name in UPLOADS else "json"
    return getattr(browser(user), endpoint.method)(url, OF_TEAMS[endpoint.name](world), format=sent)


LOOKING = [each for each in ALL if each.name in OF_TEAMS]


def _views() -> dict[str, Any]:
    views: dict[str, Any] = {}

    def walk(patterns: list[Any]) -> None:
        for pattern in patterns:
            if hasattr(pattern, "url_patterns"):
                walk(pattern.url_patterns)
            elif hasattr(pattern.callback, "actions"):
                views[pattern.callback.cls.__name__.removesuffix("ViewSet")] = pattern.callback.cls

    walk(get_resolver("apps.api_urls").url_patterns)
    return views


def test_each_writing_endpoint_checks_the_team_or_is_the_instance_s() -> None:
    assert set(OF_TEAMS) | OF_HOUSE == set(WRITERS)
    assert set(OF_TEAMS) & OF_HOUSE == set()


def test_viewsets_admit_teams_only_where_a_service_checks_the_role() -> None:
    opened = {f"{room}.{action}" for room, view in _views().items() for action in getattr(view, "of_teams", ())}

    assert opened == set(OF_TEAMS)


def test_no_endpoint_for_rows_of_teams_checks_the_instance_role_only() -> None:
    models = {
        room: view.queryset.model for room, view in _views().items() if getattr(view, "queryset", None) is not None
    }
    owned = {room for room, model in models.items() if issubclass(model, Owned) or _on_a_host(model)}

    assert owned <= ROOMS
    assert {name for name in OF_HOUSE if name.partition(".")[0] in ROOMS} == set()


def _on_a_host(model: Any) -> bool:
    return any(field.many_to_one and field.related_model is Host for field in model._meta.get_fields())


@pytest.mark.parametrize("endpoint", LOOKING, ids=lambda each: each.name)
def test_roles_in_the_instance_and_in_other_teams_do_not_count_in_this_team(endpoint: Endpoint, world: World) -> None:
    house = min(endpoint.needs, Role.TUNER, key=list(Role).index)
    outsider = somebody(world, house=house, there=Role.ADMIN)

    answer = send(endpoint, world, outsider)

    assert answer.status_code == 403, answer.content
    problem = answer.json()
    assert f"{outsider} is viewer in the team storage; this needs {endpoint.needs.value} there" in problem["title"]


@pytest.mark.parametrize("endpoint", LOOKING, ids=lambda each: each.name)
def test_a_role_below_the_least_is_refused_in_the_team(endpoint: Endpoint, world: World) -> None:
    below = list(Role)[list(Role).index(endpoint.needs) - 1]

    answer = send(endpoint, world, somebody(world, here=below, there=Role.ADMIN))

    assert answer.status_code == 403, answer.content
    assert f"is {below.value} in the team storage" in answer.json()["title"]


@pytest.mark.parametrize("endpoint", LOOKING, ids=lambda each: each.name)
def test_the_least_role_in_the_team_is_enough_for_a_viewer_of_the_instance(endpoint: Endpoint, world: World) -> None:
    member = somebody(world, here=endpoint.needs)
    User.objects.filter(pk=member.pk).update(may_run_commands=True)  # which a twin needs, too

    answer = send(endpoint, world, member)

    assert answer.status_code in (200, 201, 202, 204, 400, 404, 502), answer.content


def test_the_buttons_of_a_host_are_refused_to_outsiders(world: World) -> None:
    client, sent = Client(), {"until": "2030-01-31 18:00", "may": "restart", "reason": "mine"}
    client.force_login(somebody(world, house=Role.TUNER, there=Role.ADMIN))

    answers = {name: client.post(reverse("host_action", args=[world.host.name, name]), sent) for name in ACTIONS}

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(ACTIONS, 403)


@pytest.mark.parametrize(
    ("room", "actions"),
    [
        (
            "campaign",
            ("start", "cancel", "priority", "pause", "resume", "retry", "archive", "unarchive", *PAGES_OF_CAMPAIGN),
        ),
        ("decision", ("accept", "reject", "withdraw", "confirm", "renew", "comment")),
        ("team", ("set-member", "remove-member", "take", "give")),
    ],
)
def test_the_buttons_of_campaigns_decisions_and_teams_are_refused_to_outsiders(
    world: World, room: str, actions: tuple[str, ...]
) -> None:
    client = Client()
    client.force_login(somebody(world, house=Role.TUNER, there=Role.ADMIN))
    key = {"campaign": world.campaign.pk, "decision": world.decision.pk, "team": world.team.pk}[room]
    sent = {"text": "no", "priority": "3", "user": str(world.by.pk), "role": "viewer", "kind": "host"}
    sent |= {"name": world.host.name, "about": ""}
    own = {page: f"campaign_{page}" for page in PAGES_OF_CAMPAIGN}

    urls = [
        reverse(own[action], args=[key]) if action in own else reverse(f"{room}_action", args=[key, action])
        for action in actions
    ]

    assert [client.post(url, sent).status_code for url in urls] == [403] * len(actions)


def test_decisions_and_the_timeline_are_filtered_by_team(world: World) -> None:
    client, reader = Client(), make_user()
    client.force_login(reader)
    path = reverse("decision_detail", args=[world.decision.pk])

    shown = [path in client.get(reverse("timeline") + f"?team={key.pk}").text for key in (world.team, world.other)]
    ids = [
        [row["id"] for row in browser(reader).get(f"/api/v1/decisions/?team={key.pk}").json()["results"]]
        for key in (world.team, world.other)
    ]

    assert shown == [True, False]
    assert ids == [[world.decision.pk], []]
    assert browser(reader).get(f"/api/v1/timeline/?team={world.other.pk}").json()["entries"] == []

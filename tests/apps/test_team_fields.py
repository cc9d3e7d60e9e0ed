"""An admin of one team cannot change any field of any object of another team."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.apps import apps
from django.db.models import Model
from django.urls import reverse
from rest_framework import serializers

from apps.accounts.api import UserChangeSerializer
from apps.accounts.models import Channel, Role, Session, Team, User
from apps.accounts.notices.channel_api import ChannelChangeSerializer
from apps.accounts.team.team_api import TeamSerializer
from apps.campaigns.api.schedules import ScheduleChangeSerializer
from apps.campaigns.api.serializers import RenameSerializer
from apps.campaigns.models import Campaign, Schedule
from apps.hosts.api.serializers import HostSerializer
from apps.hosts.models import Host
from apps.results.models import CachedAnswer
from tests.apps.accounts.test_api_roles import ALL
from tests.apps.test_team_roles import LOOKING, World, send, somebody, world
from tests.rows.factories import browser, make_host, make_identity

__all__ = ["world"]  # the fixture

OURS = ("accounts", "hosts", "tuning", "campaigns", "results", "searches", "decisions")
# What logging in and reading write.
APART = (Session, CachedAnswer)


def everything() -> dict[str, list[str]]:
    """Every field of every row."""
    models = [model for label in OURS for model in apps.get_app_config(label).get_models() if model not in APART]
    return {model.__name__: sorted(map(repr, model._default_manager.values())) for model in models}


def outsider(world: World) -> User:
    """An admin of the other team, and a tuner of the house, which here counts for nothing."""
    return somebody(world, house=Role.TUNER, there=Role.ADMIN)


def changed(before: dict[str, list[str]]) -> list[str]:
    now = everything()
    return [name for name in now if now[name] != before[name] and name != "User"]  # last_login


@pytest.mark.thorough
def test_no_endpoint_changes_a_field_for_an_outsider(world: World) -> None:
    user, answers, differing = outsider(world), {}, {}
    browser(user).get("/api/v1/me/")
    before = everything()

    for endpoint in LOOKING:
        answers[endpoint.name] = send(endpoint, world, user).status_code
        differing[endpoint.name] = changed(before)

    assert {name: status for name, status in answers.items() if status != 403} == {}
    assert {name: models for name, models in differing.items() if models} == {}


def _of_host(world: World) -> dict[str, Any]:
    mine = make_host(team=world.other)
    return {
        "name": "taken",
        "labels": ["taken"],
        "address": "127.0.0.9",
        "port": 2222,
        "user": "taken",
        "sudo": not world.host.sudo,
        "launcher": not world.host.launcher,
        "identity": make_identity("mine").pk,
        "jump": mine.pk,
        "python": "/taken",
        "spool_dir": "/taken",
        "data_dir": "/taken",
        "pg_bin_dirs": ["/taken"],
        "pg_data_dirs": ["/taken"],
        "may_reboot": not world.host.may_reboot,
        "os_user": "taken",
        "windows": [{"days": [0], "from": "01:00", "to": "02:00"}],
        "time_zone": "Europe/Athens",
        "team": world.other.pk,
    }


def _of_schedule(world: World) -> dict[str, Any]:
    windows = [{"days": [0], "from": "01:00", "to": "02:00"}]
    changes = {"name": "taken", "when": "daily 04:30", "time_zone": "Europe/Athens"}
    return {**changes, "windows": windows, "late_by_min": 45}


def _of_channel(world: World) -> dict[str, Any]:
    changes = {"name": "taken", "address": "taken@example.org", "active": False}
    return {**changes, "details": {}, "events": ["campaign.failed"]}


@dataclass(frozen=True)
class Patch:
    """A PATCH of the API: another value of each field that may be written, and how it is refused."""

    model: type[Model]
    serializer: type[serializers.Serializer[Any]]
    values: Callable[[World], dict[str, Any]]
    status: int = 403


PATCHES = {
    "Host": Patch(Host, HostSerializer, _of_host),
    "Campaign": Patch(Campaign, RenameSerializer, lambda world: {"name": "taken", "question": "taken?"}),
    "Schedule": Patch(Schedule, ScheduleChangeSerializer, _of_schedule),
    "Team": Patch(Team, TeamSerializer, lambda world: {"name": "taken", "about": "taken", "private": True}),
    "Channel": Patch(Channel, ChannelChangeSerializer, _of_channel, 404),  # of a member: no other user may change it
    "User": Patch(
        User,
        UserChangeSerializer,
        lambda world: {"email": "taken@example.org", "role": "operator", "is_active": False, "may_run_commands": True},
    ),
}
OF_NO_TEAM = {"Pin"}  # every operator of the instance changes saved views


def _writable(serializer: type[serializers.Serializer[Any]]) -> set[str]:
    return {name for name, field in serializer().fields.items() if not field.read_only}


def test_every_field_that_can_be_patched_is_tried(world: World) -> None:
    assert {each.room for each in ALL if each.method == "patch"} == {*PATCHES, *OF_NO_TEAM}
    tried = {room: set(patch.values(world)) for room, patch in PATCHES.items()}
    assert tried == {room: _writable(patch.serializer) for room, patch in PATCHES.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("room", PATCHES)
def test_no_field_changes_for_an_outsider(world: World, room: str) -> None:
    member = somebody(world, here=Role.ADMIN)
    channel = Channel.objects.create(owner=member, name="mine", kind="mail", address="ours@example.org", events=[])
    keys = world.rows | {"User": member.pk, "Channel": channel.pk}
    patch, client, url = (
        PATCHES[room],
        browser(outsider(world)),
        reverse(f"api:{room.lower()}-detail", args=[keys[room]]),
    )
    values, row = patch.values(world), patch.model._default_manager.filter(pk=keys[room]).values()
    before, everywhere = row.get(), everything()

    answers = {name: client.patch(url, {name: value}, format="json") for name, value in values.items()}

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(values, patch.status)
    assert row.all().get() == before
    assert changed(everywhere) == []


@pytest.mark.parametrize("name", ["hosts", "profiles", "workloads", "datasets", "decisions"])
def test_nothing_is_made_for_another_team(world: World, name: str) -> None:
    user, before = outsider(world), everything()
    bodies: dict[str, dict[str, Any]] = {
        "hosts": {"name": "x", "address": "127.0.0.1", "user": "dba", "identity": make_identity("own").pk},
        "profiles": {"name": "x", "settings": {}},
        "workloads": {"name": "x", "kind": "pgbench", "options": {}},
        "datasets": {"name": "x", "options": {"scale": 1}},
        "decisions": {"campaign": str(world.campaign.pk), "title": "t", "decision": "d"},
    }

    answer = browser(user).post(f"/api/v1/{name}/", bodies[name] | {"team": world.team.pk}, format="json")

    assert answer.status_code == 403, answer.content
    assert [each for each in changed(before) if each != "Identity"] == []
    assert Team.objects.count() == 2

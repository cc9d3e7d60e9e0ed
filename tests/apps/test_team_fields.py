"""An admin of one team cannot change any field of any object of another team."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from rest_framework import serializers

from apps.accounts.models import Role, Session, Team, User
from apps.hosts.api.serializers import HostSerializer
from apps.hosts.models import Host
from apps.results.models import CachedAnswer
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


def _values(world: World) -> dict[str, Any]:
    """Another value of each field of a host that may be written."""
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


def _writable(serializer: type[serializers.Serializer[Any]]) -> set[str]:
    return {name for name, field in serializer().fields.items() if not field.read_only}


def test_every_field_of_a_host_is_tried(world: World) -> None:
    assert set(_values(world)) == _writable(HostSerializer)


@pytest.mark.thorough
def test_no_field_of_a_host_changes_for_an_outsider(world: World) -> None:
    user, values = outsider(world), _values(world)
    url, before = f"/api/v1/hosts/{world.host.pk}/", Host.objects.filter(pk=world.host.pk).values().get()

    answers = {name: browser(user).patch(url, {name: value}, format="json") for name, value in values.items()}

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(values, 403)
    assert Host.objects.filter(pk=world.host.pk).values().get() == before


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

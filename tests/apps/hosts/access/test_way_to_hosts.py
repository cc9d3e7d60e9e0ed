"""No team can change the connection of a host whose SSH key also opens hosts of other teams."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Role, Team, User
from apps.hosts.models import Host, HostKey, Identity
from apps.hosts.services import WAY
from tests.rows.factories import browser, make_host, make_identity, make_user

pytestmark = pytest.mark.django_db
# One change of each field of the way; `jump` and `identity` are filled in from the database.
CHANGES: dict[str, Any] = {
    "address": "127.0.0.2",
    "port": 2222,
    "user": "postgres",
    "sudo": True,
    "identity_id": None,
    "jump_id": None,
    "python": "/home/dba/python3",
    "spool_dir": "/home/dba/spool",
    "launcher": True,
}


@pytest.fixture
def shared() -> Identity:
    return make_identity("shared")


@pytest.fixture
def theirs(shared: Identity) -> Host:
    return make_host("theirs", team=Team.objects.create(name="network"), identity=shared)


@pytest.fixture
def ours(shared: Identity, theirs: Host) -> Host:
    return make_host("ours", team=Team.objects.create(name="storage"), identity=shared, sudo=False)


@pytest.fixture
def lead(ours: Host) -> User:
    """An admin of the team of `ours` who is a viewer elsewhere."""
    user = make_user(Role.VIEWER)
    Membership.objects.create(team=ours.team, user=user, role=Role.ADMIN)
    return user


def patch(host: Host, by: User, name: str, value: Any) -> Any:
    return browser(by).patch(reverse("api:host-detail", args=[host.pk]), {name: value}, format="json")


def test_there_is_an_attack_for_each_field_of_the_connection() -> None:
    assert set(CHANGES) == set(WAY)


@pytest.mark.parametrize("name", WAY)
def test_no_field_of_the_connection_can_change_while_the_key_opens_a_host_of_another_team(
    name: str, ours: Host, theirs: Host, lead: User
) -> None:
    behind = make_host("behind", team=theirs.team, identity=theirs.identity)
    value = {"identity_id": make_host("other", team=theirs.team, identity=make_identity("other")).identity_id}
    value |= {"jump_id": behind.pk}

    answer = patch(ours, lead, name.removesuffix("_id"), value.get(name, CHANGES[name]))

    assert answer.status_code == 403, answer.content
    assert "network" in answer.json()["title"]


@pytest.mark.parametrize("name", [each for each in WAY if not each.endswith("_id")])
def test_the_team_can_change_the_connection_if_the_key_opens_only_its_hosts(name: str, ours: Host, lead: User) -> None:
    Host.objects.filter(pk=ours.pk).update(identity=make_identity("own"))

    assert patch(ours, lead, name, CHANGES[name]).status_code == 200


def test_admins_of_a_team_can_change_fields_that_are_not_part_of_the_connection(ours: Host, lead: User) -> None:
    assert patch(ours, lead, "labels", ["oltp"]).status_code == 200


def test_a_host_name_of_another_machine_is_not_approved_with_a_shared_key(ours: Host, lead: User) -> None:
    HostKey.objects.create(host=ours, key="ssh-ed25519 AAAA", fingerprint="SHA256:theirs")
    url = reverse("api:host-approve-host-key", args=[ours.pk])

    answer = browser(lead).post(url, {"fingerprint": "SHA256:theirs"}, format="json")

    assert answer.status_code == 403, answer.content
    assert not ours.host_keys.filter(state=HostKey.State.PINNED, fingerprint="SHA256:theirs").exists()


def test_an_instance_admin_can_change_every_field(ours: Host, admin: User) -> None:
    assert patch(ours, admin, "port", 2222).status_code == 200

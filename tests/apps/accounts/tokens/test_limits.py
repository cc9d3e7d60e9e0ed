"""A token that is limited to one team, or to networks."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from apps.accounts.models import ApiToken, AuditEntry, Membership, Role, Team, User
from tests.rows.factories import browser, make_host, make_user, script

TOKENS, ME = "/api/v1/tokens/", "/api/v1/me/"


@pytest.fixture
def storage(db: None) -> Team:
    return Team.objects.create(name="storage")


@pytest.fixture
def network(db: None) -> Team:
    return Team.objects.create(name="network")


def member(role: Role, *teams: Team) -> User:
    user = make_user(Role.VIEWER)
    for team in teams:
        Membership.objects.create(team=team, user=user, role=role)
    return user


def check_host(client: APIClient, host: Any) -> Any:
    return client.post(f"/api/v1/hosts/{host.pk}/check/")


def test_its_role_counts_in_its_team_and_in_no_other(storage: Team, network: Team) -> None:
    ours, theirs = make_host(team=storage), make_host(team=network)
    client = script(member(Role.OPERATOR, storage, network), Role.OPERATOR, team=storage)

    allowed, refused = check_host(client, ours), check_host(client, theirs)

    assert allowed.status_code == 202
    assert refused.status_code == 403
    title = "the token is limited to the team storage; this needs operator in the team network"
    assert refused.json()["title"] == title
    assert "not limited to a team" in refused.json()["hint"]


def test_an_instance_admin_is_limited_to_the_team_as_well(storage: Team, admin: User) -> None:
    ours, nobodys = make_host(team=storage), make_host()
    client = script(admin, Role.ADMIN, team=storage)

    answers = [check_host(client, host).status_code for host in (ours, nobodys)]
    of_instance = client.post("/api/v1/teams/", {"name": "more"})

    assert answers == [202, 403]
    assert of_instance.status_code == 403
    assert "limited to the team storage; this needs admin in the instance" in of_instance.json()["title"]


def test_objects_that_it_creates_belong_to_its_team_or_are_refused(storage: Team, network: Team) -> None:
    client = script(member(Role.TUNER, storage, network), Role.TUNER, team=storage)

    answers = [
        client.post("/api/v1/profiles/", {"name": f"p-{team or 0}", "settings": {}, "team": team}).status_code
        for team in (storage.pk, network.pk, None)
    ]

    assert answers == [201, 403, 403]


def test_me_shows_the_roles_within_the_limits_of_the_token(storage: Team, network: Team) -> None:
    me = script(member(Role.TUNER, storage, network), Role.OPERATOR, team=storage).get(ME).json()

    assert {team["name"]: team["role"] for team in me["teams"]} == {"network": "viewer", "storage": "operator"}
    assert me["token"]["team"] == storage.pk


def test_it_ends_with_its_team(storage: Team, admin: User) -> None:
    script(admin, Role.ADMIN, team=storage)

    browser(admin).delete(f"/api/v1/teams/{storage.pk}/")

    assert not ApiToken.objects.exists()


def test_it_issues_tokens_for_its_team_only(storage: Team, network: Team) -> None:
    client = script(member(Role.TUNER, storage, network), Role.TUNER, team=storage, days=9)

    inherited = client.post(TOKENS, {"name": "heir", "days": 1})
    refused = client.post(TOKENS, {"name": "other", "days": 1, "team": network.pk})

    assert inherited.json()["team"] == storage.pk
    assert (refused.status_code, refused.json()["field"]) == (400, "team")


def test_it_revokes_no_token_that_is_not_limited(storage: Team, admin: User) -> None:
    limited = script(admin, Role.ADMIN, team=storage)
    script(admin, Role.ADMIN)

    answer = limited.delete(f"{TOKENS}{ApiToken.objects.get(team=None).pk}/")

    assert answer.status_code == 403
    assert "the current token has the role admin, the team storage" in answer.json()["title"]


def test_a_token_works_only_from_its_networks(viewer: User) -> None:
    cache.clear()
    client = script(viewer, networks=["10.2.0.0/16", "2001:db8::/32"])

    answers = {
        address: client.get(ME, REMOTE_ADDR=address).status_code
        for address in ("10.2.3.4", "::ffff:10.2.3.4", "2001:db8::7", "10.3.0.1", "2001:db9::1", "")
    }
    refused = client.get(ME, REMOTE_ADDR="192.0.2.1")

    assert list(answers.values()) == [200, 200, 200, 403, 403, 403]
    assert refused.status_code == 403
    title = "this token works only from 10.2.0.0/16, 2001:db8::/32; the request came from 192.0.2.1"
    assert refused.json()["title"] == title
    assert AuditEntry.objects.get(action="token.refuse").after["address"] == "10.3.0.1"


def test_a_header_that_claims_another_address_changes_nothing(viewer: User) -> None:
    client = script(viewer, networks=["10.2.0.0/16"])

    assert client.get(ME, REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR="10.2.0.1").status_code == 403


def test_a_stored_response_is_not_repeated_to_another_network(operator: User) -> None:
    client = script(operator, networks=["10.2.0.0/16"], days=9)
    key, body = {"HTTP_IDEMPOTENCY_KEY": "k-1"}, {"name": "ci", "days": 1}
    client.post(TOKENS, body, REMOTE_ADDR="10.2.0.1", **key)

    assert client.post(TOKENS, body, REMOTE_ADDR="192.0.2.1", **key).status_code == 403


def test_it_issues_tokens_inside_of_its_networks_only(operator: User) -> None:
    client = script(operator, networks=["10.2.0.0/16"], days=9)
    sent = {"name": "heir", "days": 1}

    answers = [
        client.post(TOKENS, sent | {"networks": networks}, REMOTE_ADDR="10.2.0.1")
        for networks in ([], ["10.2.7.0/24"], ["10.0.0.0/8"], ["2001:db8::/32"])
    ]

    assert [answer.status_code for answer in answers] == [201, 201, 400, 400]
    assert answers[0].json()["networks"] == ["10.2.0.0/16"]
    assert answers[2].json()["title"] == "10.0.0.0/8 is outside of 10.2.0.0/16"


@pytest.mark.parametrize(
    ("typed", "accepted"), [("10.2.0.1/16", "did you mean 10.2.0.0/16?"), ("office", "networks such as 10.2.0.0/16")]
)
def test_a_wrong_network_is_refused_with_what_is_accepted(viewer: User, typed: str, accepted: str) -> None:
    problem = browser(viewer).post(TOKENS, {"name": "t", "networks": [typed]}).json()

    assert (problem["status"], problem["field"]) == (400, "networks")
    assert problem["title"] == f"{typed!r} is not a network"
    assert accepted in problem["hint"]


def test_the_last_use_is_shown_with_its_address(viewer: User) -> None:
    script(viewer).get(ME, REMOTE_ADDR="::ffff:192.0.2.7")

    token = browser(viewer).get(TOKENS).json()["results"][0]
    assert token["last_used_from"] == "192.0.2.7"
    assert token["last_used_at"] is not None

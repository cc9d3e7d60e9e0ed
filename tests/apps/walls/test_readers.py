"""A private team is visible only to its members and instance admins, from the next request on."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, AuditEntry, Channel, Delivery, Membership, Role, Team, User
from apps.accounts.notices.notify import notify
from apps.accounts.team import teams
from apps.campaigns import services
from apps.campaigns.models import Campaign
from common.errors import PlanError
from tests.apps.walls.conftest import Private
from tests.rows.factories import (
    browser,
    make_campaign,
    make_copy,
    make_host,
    make_member,
    make_profile,
    make_user,
    make_workload,
    script,
)


def statuses(user: User, private: Private) -> list[int]:
    """Of the pages of the team, its host and the host's campaign."""
    addresses = [
        reverse("team_detail", args=[private.team.pk]),
        reverse("host_detail", args=[private.host.name]),
        reverse("campaign_detail", args=[private.campaign.pk]),
        reverse("campaign_stream", args=[private.campaign.pk]),
        reverse("api:host-detail", args=[private.host.pk]),
        reverse("api:campaign-detail", args=[private.campaign.pk]),
    ]
    return [browser(user).get(address).status_code for address in addresses]


@pytest.mark.thorough
def test_members_and_instance_admins_see_a_private_team_and_others_get_404(private: Private) -> None:
    viewer = make_member(private.team, Role.VIEWER)

    for user in (private.member, viewer, make_user(Role.ADMIN)):
        assert statuses(user, private) == [200] * 6
    assert statuses(private.stranger, private) == [404] * 6


def test_a_user_who_leaves_a_private_team_gets_404_from_the_next_request_on(private: Private) -> None:
    viewer = make_member(private.team, Role.VIEWER)
    client = Client()
    client.force_login(viewer)
    address = reverse("host_detail", args=[private.host.name])
    before = client.get(address).status_code

    teams.remove_member(private.team, viewer, by=private.member)

    assert (before, client.get(address).status_code) == (200, 404)


def test_a_token_that_is_limited_to_a_private_team_ends_with_the_membership(private: Private) -> None:
    viewer = make_member(private.team, Role.VIEWER)
    token = ApiToken.objects.create(
        user=viewer, name="t", digest="0" * 64, team=private.team, expires_at="2999-01-01T00:00Z"
    )

    teams.remove_member(private.team, viewer, by=private.member)

    assert not ApiToken.objects.filter(pk=token.pk).exists()


def test_a_host_that_moves_to_another_team_is_visible_to_users_who_see_that_team(private: Private) -> None:
    admin = make_user(Role.ADMIN)

    teams.hand_over(private.host, None, by=admin)
    assert statuses(private.stranger, private) == [404, 200, 200, 200, 200, 200]

    teams.hand_over(private.host, private.team, by=admin)
    assert statuses(private.stranger, private) == [404] * 6


def test_a_campaign_on_hosts_of_two_private_teams_is_seen_only_by_members_of_both(private: Private) -> None:
    other = Team.objects.create(name="more secrets", private=True)
    private.campaign.further_hosts.add(make_host(team=other))
    address = reverse("campaign_detail", args=[private.campaign.pk])
    both = make_member(other, Role.VIEWER)
    Membership.objects.create(team=private.team, user=both, role=Role.VIEWER)

    assert browser(private.member).get(address).status_code == 404
    assert browser(both).get(address).status_code == 200


def test_a_host_of_a_private_team_in_a_role_hides_the_campaign(private: Private) -> None:
    private.campaign.host = make_host()
    private.campaign.roles = {"client": private.host.pk}
    private.campaign.save()
    address = reverse("campaign_detail", args=[private.campaign.pk])

    assert browser(private.stranger).get(address).status_code == 404
    assert browser(private.member).get(address).status_code == 200
    private.campaign.roles = {"standbys": [private.host.pk]}
    private.campaign.save()
    assert browser(private.stranger).get(address).status_code == 404


def test_a_token_that_is_limited_to_a_team_shows_no_other_private_team(private: Private) -> None:
    other = Team.objects.create(name="storage")
    admin = make_user(Role.ADMIN)
    address = reverse("api:host-detail", args=[private.host.pk])

    assert script(admin, Role.ADMIN).get(address).status_code == 200
    assert script(admin, Role.ADMIN, team=other).get(address).status_code == 404
    assert script(admin, Role.ADMIN, team=private.team).get(address).status_code == 200
    assert script(private.member, Role.VIEWER, team=private.team).get(address).status_code == 200


def test_an_admin_of_the_team_makes_it_private_and_the_audit_log_has_it(private: Private) -> None:
    team = Team.objects.create(name="storage")
    member = make_member(team, Role.ADMIN)

    address = reverse("team_action", args=[team.pk, "set-private"])

    answer = browser(member).post(address, {"private": "on"}, format="multipart")

    team.refresh_from_db()
    assert (answer.status_code, team.private) == (302, True)
    entry = AuditEntry.objects.get(action="team.change")
    assert (entry.actor, entry.before["private"], entry.after["private"]) == (member, False, True)


def test_an_admin_of_the_team_changes_visibility_by_the_api_but_not_the_name(private: Private) -> None:
    client, address = browser(private.member), reverse("api:team-detail", args=[private.team.pk])

    assert client.patch(address, {"private": False}, format="json").json()["private"] is False
    assert client.patch(address, {"name": "others"}, format="json").status_code == 403


def test_a_name_that_a_private_team_uses_is_refused_like_any_other(private: Private) -> None:
    public = make_host()
    fields = {"address": "127.0.0.1", "user": "dba", "identity": public.identity_id}
    client = browser(make_member(Team.objects.create(name="storage"), Role.ADMIN))
    team = Team.objects.get(name="storage").pk
    Team.objects.get(name="storage").hosts.add(public)

    answers = [
        client.post(reverse("api:host-list"), {**fields, "name": name, "team": team}, format="json")
        for name in (public.name, private.host.name)
    ]

    first, second = (answer.content.decode() for answer in answers)
    assert [answer.status_code for answer in answers] == [400, 400]
    assert second == first.replace(public.name, private.host.name)


def test_a_user_of_another_team_may_not_use_an_ssh_key_shared_with_a_private_team(private: Private) -> None:
    team = Team.objects.create(name="storage")
    member = make_member(team, Role.ADMIN)
    fields = {"name": "mine", "address": "127.0.0.1", "user": "dba", "identity": private.host.identity_id}

    answer = browser(member).post(reverse("api:host-list"), {**fields, "team": team.pk}, format="json")

    assert answer.status_code == 403
    assert private.team.name not in answer.content.decode()


def test_mail_about_a_private_team_goes_only_to_users_who_may_see_it(private: Private) -> None:
    for name, owner, kind in (
        ("member", private.member, "mail"),
        ("stranger", private.stranger, "mail"),
        ("room", make_user(Role.ADMIN), "chat"),
    ):
        Channel.objects.create(name=name, owner=owner, kind=kind, address="a@example.org", events=["host.unfit"])

    notify("host.unfit", "vault-01 is unfit", {}, about=[private.host])
    notify("host.unfit", "db is unfit", {}, about=[make_host()])

    sent = set(Delivery.objects.values_list("channel__name", "subject"))
    assert {name for name, subject in sent if subject.startswith("vault")} == {"member"}
    assert {name for name, subject in sent if subject.startswith("db")} == {"member", "stranger", "room"}
    log = browser(private.stranger).get(reverse("channel_list")).content.decode()
    assert "vault-01 is unfit" not in log


@pytest.mark.parametrize("field", ["profile", "workload", "dataset"])
def test_objects_of_a_private_team_are_refused_on_hosts_of_others(private: Private, field: str) -> None:
    made = {"profile": make_profile(), "workload": make_workload(), "dataset": make_copy().dataset}
    owned = made[field].profile if field == "profile" else made[field]
    type(owned).objects.filter(pk=owned.pk).update(team=private.team)
    made[field].refresh_from_db()

    with pytest.raises(PlanError, match="belongs to the private team secrets") as refused:
        make_campaign(by=private.member, host=make_host(), **{field: made[field]})

    assert refused.value.subject == field
    assert make_campaign(by=private.member, host=private.host, **{field: made[field]}).pk


def test_a_host_of_a_private_team_runs_no_campaign_with_hosts_of_others(private: Private) -> None:
    placed = {"placement": Campaign.Placement.EACH}

    with pytest.raises(PlanError, match="vault-01 belongs to the private team secrets"):
        make_campaign(by=private.member, host=private.host, further_hosts=[make_host()], **placed)
    with pytest.raises(PlanError, match="vault-01 belongs to the private team secrets"):
        make_campaign(by=private.member, host=make_host(), further_hosts=[private.host], **placed)


def test_a_draft_does_not_start_after_its_profile_became_private(private: Private) -> None:
    revision = make_profile()
    draft = make_campaign(by=private.member, host=make_host(), profile=revision)
    revision.profile.team = private.team
    revision.profile.save()
    draft.refresh_from_db()

    with pytest.raises(PlanError, match="belongs to the private team secrets"):
        services.start_campaign(draft, by=private.member)

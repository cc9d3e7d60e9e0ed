"""Sign-in with a provider over HTTP: which users may sign in, as which account, with which roles."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.identity import mapping
from apps.accounts.models import AuditEntry, Membership, ProviderAccount, Role, Team, User
from tests.rows import populate
from tests.servers.provider import Provider

pytestmark = pytest.mark.django_db
ROLES = mapping.instance_roles("ROLES", "staff=viewer; dba=tuner; cn=admins,ou=pg=admin")
TEAMS = mapping.team_roles("TEAMS", "storage=Storage:operator; storage-leads=Storage:admin")


def actions(*names: str) -> list[str]:
    """Actions of the audit log, oldest first."""
    entries = AuditEntry.objects.filter(action__in=names) if names else AuditEntry.objects.all()
    return list(entries.order_by("id").values_list("action", flat=True))


def test_without_a_provider_there_is_no_address_and_no_button(client: Client) -> None:
    assert [client.get(reverse(name)).status_code for name in ("oidc_start", "oidc_callback")] == [404, 404]
    assert "Sign in with" not in client.get(reverse("login")).content.decode()


def test_the_login_page_leads_to_the_provider_and_back_to_the_requested_page(
    provider: Provider, client: Client
) -> None:
    provider.user("grace")
    page = client.get(reverse("login"), {"next": "/hosts/"}).content.decode()

    answer = provider.sign_in(client, "grace", next="/hosts/")

    assert f"{reverse('oidc_start')}?next=/hosts/" in page and "Sign in with Example Corp" in page
    assert answer["Location"] == "/hosts/"
    assert client.get("/hosts/").status_code == 200


def test_a_first_sign_in_creates_a_viewer_without_a_password_and_says_so_in_the_audit_log(
    provider: Provider, client: Client
) -> None:
    provider.user("grace", preferred_username="Grace Hopper", email="grace@example.org", email_verified=True)

    provider.sign_in(client, "grace")

    user = User.objects.get()
    assert (user.username, user.email, user.role) == ("Grace-Hopper", "grace@example.org", Role.VIEWER)
    assert not user.has_usable_password()
    assert actions() == ["login.create", "login.provider"]
    assert AuditEntry.objects.filter(action="login.provider").get().after["address"] == "127.0.0.1"


def test_a_second_sign_in_is_the_same_user_even_after_a_change_of_name(provider: Provider, client: Client) -> None:
    provider.user("7f3a", preferred_username="grace")
    provider.sign_in(client, "7f3a")
    provider.user("7f3a", preferred_username="ada")

    provider.sign_in(Client(), "7f3a")

    assert User.objects.get().username == "grace"
    assert ProviderAccount.objects.get().subject == "7f3a"


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["staff"], "viewer"), (["staff", "dba"], "tuner"), (["cn=admins,ou=pg"], "admin")],
)
def test_the_highest_role_of_the_groups_counts(
    provider: Provider, client: Client, settings: Any, groups: list[str], role: str
) -> None:
    settings.OIDC_ROLES = ROLES
    provider.user("grace", *groups)

    provider.sign_in(client, "grace")

    assert User.objects.get().role == role


@pytest.mark.parametrize("groups", [[], ["DBA"], ["dba "], ["Staff"], ["ſtaff"], ["cn=admins"], [7], [["staff"]]])
def test_a_group_that_only_resembles_one_of_the_list_gives_nothing(
    provider: Provider, client: Client, settings: Any, groups: list[Any]
) -> None:
    settings.OIDC_ROLES = ROLES
    provider.user("grace", *groups)

    answer = provider.sign_in(client, "grace")

    assert answer.status_code == 403
    assert "None of your groups at the provider has a role here" in answer.content.decode()
    assert not User.objects.exists()
    assert actions() == ["login.refused"]


@pytest.mark.parametrize(
    ("claim", "claims"),
    [("groups", {"groups": "dba"}), ("realm_access.roles", {"realm_access": {"roles": ["dba"]}})],
)
def test_groups_may_be_one_text_or_at_a_path(
    provider: Provider, client: Client, settings: Any, claim: str, claims: dict[str, Any]
) -> None:
    settings.OIDC_ROLES, settings.OIDC_GROUPS_CLAIM = ROLES, claim
    provider.user("grace", **claims)

    provider.sign_in(client, "grace")

    assert User.objects.get().role == Role.TUNER


def test_each_sign_in_takes_roles_and_teams_from_the_groups_and_leaves_other_teams_alone(
    provider: Provider, client: Client, settings: Any
) -> None:
    settings.OIDC_ROLES, settings.OIDC_TEAMS = ROLES, TEAMS
    storage, other = Team.objects.create(name="Storage"), Team.objects.create(name="Other")
    provider.user("grace", "dba", "storage", "storage-leads")
    provider.sign_in(client, "grace")
    user = User.objects.get()
    Membership.objects.create(team=other, user=user, role=Role.TUNER)
    before = Membership.objects.get(team=storage).role

    provider.user("grace", "staff")
    provider.sign_in(Client(), "grace")

    user.refresh_from_db()
    assert (before, user.role) == (Role.ADMIN, Role.VIEWER)
    assert [(membership.team.name, membership.role) for membership in user.memberships.all()] == [("Other", Role.TUNER)]
    assert actions("team.member", "team.leave", "user.change") == [
        "user.change",
        "team.member",
        "user.change",
        "team.leave",
    ]
    assert AuditEntry.objects.filter(action="user.change").latest("id").after == {
        "role": "viewer",
        "by": "groups at the provider",
    }


def test_a_role_in_a_team_is_enough_to_read_the_rest(provider: Provider, client: Client, settings: Any) -> None:
    settings.OIDC_ROLES, settings.OIDC_TEAMS = ROLES, TEAMS
    Team.objects.create(name="Storage")
    provider.user("grace", "storage")

    provider.sign_in(client, "grace")

    assert (User.objects.get().role, Membership.objects.get().role) == (Role.VIEWER, Role.OPERATOR)


def test_an_admin_cannot_change_a_role_that_the_groups_define(
    provider: Provider, client: Client, settings: Any, admin: User
) -> None:
    settings.OIDC_ROLES = ROLES
    provider.user("grace", "dba")
    provider.sign_in(Client(), "grace")
    client.force_login(admin)

    user = User.objects.get(username="grace")
    answer = client.post(reverse("user_change", args=[user.pk]), {"role": "admin"}, follow=True)

    user.refresh_from_db()
    assert user.role == Role.TUNER
    assert "the groups at Example Corp define the role of grace" in answer.content.decode()


def test_a_deactivated_user_cannot_sign_in(provider: Provider, client: Client) -> None:
    provider.user("grace")
    provider.sign_in(Client(), "grace")
    User.objects.update(is_active=False)

    answer = provider.sign_in(client, "grace")

    assert answer.status_code == 403 and "is switched off here" in answer.content.decode()
    assert client.get("/").status_code == 302


def test_a_user_who_declines_at_the_provider_sees_the_reason_and_can_go_back(
    provider: Provider, client: Client
) -> None:
    address = client.get(reverse("oidc_start"))["Location"]
    state = address.partition("state=")[2].partition("&")[0]

    answer = client.get(reverse("oidc_callback"), {"error": "access_denied", "state": state})

    assert answer.status_code == 403 and "access_denied" in answer.content.decode()
    assert reverse("login") in answer.content.decode()


def test_a_provider_that_does_not_answer_is_named_and_nothing_else_fails(
    provider: Provider, client: Client, settings: Any, admin: User
) -> None:
    settings.OIDC_ISSUER = "http://localhost:9"

    answer = client.get(reverse("oidc_start"))

    assert answer.status_code == 502 and "Example Corp" in answer.content.decode()
    entered = client.post(reverse("login"), {"username": "ada", "password": populate.PASSWORD})
    assert entered.status_code == 302
    assert actions("login.refused", "login.password") == ["login.refused", "login.password"]


def test_signing_out_here_leads_to_the_sign_out_at_the_provider(provider: Provider, client: Client) -> None:
    provider.user("grace")
    provider.sign_in(client, "grace")

    page = client.post(reverse("logout")).content.decode()

    assert f"url={provider.url}/oauth2/end_session?id_token_hint=" in page
    assert "post_logout_redirect_uri=http%3A%2F%2Ftestserver%2Flogin%2F" in page
    assert client.get("/").status_code == 302
    assert actions("logout.provider") == ["logout.provider"]


def test_a_local_user_signs_out_here_only(provider: Provider, client: Client, admin: User) -> None:
    client.force_login(admin)

    answer = client.post(reverse("logout"))

    assert answer["Location"] == reverse("login")

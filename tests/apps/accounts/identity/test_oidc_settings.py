"""Variables of the provider: accepted values, and the error at the start of the server."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.accounts.identity import mapping
from apps.accounts.identity.mapping import Grant, GroupRole
from apps.accounts.models import Role

LIMITS = {"PROVING_OIDC_RECHECK_MIN": 15}
ISSUER = "https://id.example.org/realms/main"


def test_the_roles_are_those_of_the_server_in_their_order() -> None:
    assert list(mapping.ROLES) == Role.values


def test_entries_are_divided_by_semicolons_or_lines_and_a_group_may_be_an_ldap_name() -> None:
    assert mapping.instance_roles("X", "staff = viewer;\n cn=dba,ou=groups=tuner;") == [
        GroupRole("staff", "viewer"),
        GroupRole("cn=dba,ou=groups", "tuner"),
    ]
    assert mapping.team_roles("X", "leads=Storage: EU:admin") == [GroupRole("leads", "admin", "Storage: EU")]


@pytest.mark.parametrize("text", ["staff", "=viewer", "staff=", "staff=root", "staff=Viewer", "a=viewer,b=tuner"])
def test_an_entry_that_gives_no_role_is_named(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="PROVING_OIDC_ROLES contains"):
        mapping.instance_roles("PROVING_OIDC_ROLES", text)


@pytest.mark.parametrize("text", ["g=Storage", "g=:admin", "g=Storage:", "g=Storage:root", "g=A:admin, h=B:tuner"])
def test_an_entry_that_gives_no_role_in_a_team_is_named(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="PROVING_OIDC_TEAMS contains"):
        mapping.team_roles("PROVING_OIDC_TEAMS", text)


@pytest.mark.parametrize(
    ("issuer", "client", "scopes", "break_glass", "message"),
    [
        ("http://id.example.org", "c", "openid", "", "use an https:// URL"),
        ("id.example.org", "c", "openid", "", "use an https:// URL"),
        (ISSUER, "", "openid", "", "PROVING_OIDC_CLIENT_ID is not set"),
        (ISSUER, "c", "profile email", "", "it must contain openid"),
        ("", "c", "openid", "", "PROVING_OIDC_CLIENT_ID is set without PROVING_OIDC_ISSUER"),
        ("", "", "openid", "ada", "PROVING_BREAK_GLASS_ADMIN is set without PROVING_OIDC_ISSUER"),
    ],
)
def test_a_provider_that_is_half_configured_stops_the_start(
    issuer: str, client: str, scopes: str, break_glass: str, message: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        mapping.check_provider(issuer, client, scopes, break_glass, LIMITS)


def test_a_time_of_zero_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="PROVING_OIDC_RECHECK_MIN is 0: it must be at least 1"):
        mapping.check_provider(ISSUER, "c", "openid", "", {"PROVING_OIDC_RECHECK_MIN": 0})


def test_a_provider_and_none_are_both_accepted() -> None:
    mapping.check_provider(ISSUER, "c", "openid email", "ada", LIMITS)
    mapping.check_provider("http://127.0.0.1:8080", "c", "openid", "", LIMITS)
    mapping.check_provider("", "", "openid", "", LIMITS)


@pytest.mark.parametrize("claims", [{}, {"groups": None}, {"groups": {"dba": True}}, {"groups": 7}, {"a": []}])
def test_a_claim_of_another_shape_has_no_groups(claims: dict[str, object]) -> None:
    assert mapping.groups(claims, "groups") == set() == mapping.groups(claims, "a.b.c")


def test_a_claim_whose_name_has_dots_is_read_by_its_whole_name_first() -> None:
    name = "https://example.org/groups"
    assert mapping.groups({name: ["dba"]}, name) == {"dba"}


def test_groups_that_are_not_listed_give_nothing() -> None:
    assert mapping.grant({"dba"}, [], []) == Grant() == mapping.grant(set(), [GroupRole("dba", "admin")], [])

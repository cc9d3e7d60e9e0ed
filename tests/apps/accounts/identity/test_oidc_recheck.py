"""Access that is removed at the provider ends within the time that docs/operations/identity.md promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.identity import mapping
from apps.accounts.identity.recheck import MARK
from apps.accounts.models import AuditEntry, ProviderAccount, ProviderSession, Role, Session, User
from apps.decisions.timeline.feed import renew_feed
from apps.operation import encrypted_fields
from tests.rows.factories import issue_token
from tests.servers.provider import Provider

pytestmark = pytest.mark.django_db
ROLES = mapping.instance_roles("ROLES", "staff=viewer; dba=tuner")
CHECK_MIN = 15


@pytest.fixture
def provider(provider: Provider, settings: Any) -> Provider:
    settings.OIDC_ROLES, settings.OIDC_RECHECK_MIN = ROLES, CHECK_MIN
    provider.user("grace", "dba")
    return provider


@pytest.fixture
def grace(provider: Provider) -> Client:
    """A browser of a user who has just signed in."""
    client = Client()
    assert provider.sign_in(client, "grace").status_code == 302
    provider.asked.clear()
    return client


def later(client: Client, minutes: float) -> None:
    """Let the sign-in of this browser be so much older."""
    session = client.session
    mark = session[MARK]
    session[MARK] = {**mark, **{key: mark[key] - minutes * 60 for key in ("confirmed", "ends")}}
    session.save()
    ago = timedelta(minutes=minutes)
    ProviderSession.objects.update(confirmed_at=F("confirmed_at") - ago, tried_at=F("tried_at") - ago)
    ProviderAccount.objects.update(confirmed_at=F("confirmed_at") - ago)


def asks(client: Client) -> int:
    return client.get(reverse("account")).status_code


def test_before_the_interval_is_over_the_provider_is_not_queried(provider: Provider, grace: Client) -> None:
    later(grace, CHECK_MIN - 1)

    assert asks(grace) == 200
    assert provider.asked == []


def test_after_the_interval_the_provider_confirms_it_once(provider: Provider, grace: Client) -> None:
    later(grace, CHECK_MIN + 1)

    assert [asks(grace), asks(grace)] == [200, 200]
    assert provider.asked == ["refresh_token"]


def test_a_group_that_was_removed_ends_sessions_tokens_and_feed(provider: Provider, grace: Client) -> None:
    user = User.objects.get()
    secret, feed = issue_token(user, "nightly", Role.VIEWER)[1], renew_feed(by=user)
    provider.user("grace", "somewhere-else")
    later(grace, CHECK_MIN + 1)

    assert asks(grace) == 302

    assert not Session.objects.filter(user=user).exists()
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    assert Client().get(feed).status_code == 404
    ended = AuditEntry.objects.get(action="access.end")
    assert ended.after == {"reason": "none of your groups at the provider has a role here", "ended": 3}


def test_a_lower_role_counts_from_the_same_request_on(provider: Provider, grace: Client) -> None:
    assert grace.get(reverse("profile_add")).status_code == 200
    provider.user("grace", "staff")
    later(grace, CHECK_MIN + 1)

    assert grace.get(reverse("profile_add")).status_code == 403
    assert AuditEntry.objects.filter(action="user.change").latest("id").after["role"] == "viewer"


def test_a_user_who_is_signed_out_or_disabled_at_the_provider_is_logged_out(provider: Provider, grace: Client) -> None:
    provider.revoke("grace")
    later(grace, CHECK_MIN + 1)

    assert asks(grace) == 302
    assert "invalid_grant" in AuditEntry.objects.get(action="session.lapse").after["reason"]


def test_the_api_ends_with_the_session(provider: Provider, grace: Client) -> None:
    provider.revoke("grace")
    later(grace, CHECK_MIN + 1)

    assert grace.get("/api/v1/me/").status_code == 401


def test_a_provider_that_is_down_prolongs_access_by_one_interval_and_no_more(provider: Provider, grace: Client) -> None:
    provider.down = True
    later(grace, CHECK_MIN + 1)
    within = asks(grace)
    later(grace, CHECK_MIN)

    assert (within, asks(grace)) == (200, 302)
    assert AuditEntry.objects.get(action="session.lapse").after["reason"] == "the provider does not answer"


def test_a_provider_that_is_down_is_not_queried_by_every_request(provider: Provider, grace: Client) -> None:
    provider.down = True
    later(grace, CHECK_MIN + 1)

    assert [asks(grace) for _ in range(3)] == [200, 200, 200]
    assert provider.asked == ["refresh_token"]


def test_a_session_ends_after_its_maximum_age_however_busy_it_is(provider: Provider, grace: Client) -> None:
    later(grace, 8 * 60 + 1)

    assert asks(grace) == 302
    assert provider.asked == []


def test_without_a_refresh_token_the_maximum_age_is_the_promise(
    provider: Provider, settings: Any, client: Client
) -> None:
    settings.OIDC_SESSION_MIN = 60
    provider.refreshes = False
    provider.sign_in(client, "grace")
    later(client, 59)
    before = asks(client)
    later(client, 2)

    assert (before, asks(client)) == (200, 302)


def test_tokens_and_feed_of_an_account_unconfirmed_for_a_week_are_refused_until_the_next_sign_in(
    provider: Provider, grace: Client
) -> None:
    user = User.objects.get()
    headers = {"Authorization": f"Bearer {issue_token(user, 'nightly', Role.VIEWER)[1]}"}
    feed = renew_feed(by=user)
    later(grace, 7 * 24 * 60 + 1)

    refused = Client().get("/api/v1/me/", headers=headers)

    assert refused.status_code == 401 and "sign in once in the browser" in refused.content.decode()
    assert Client().get(feed).status_code == 404
    provider.sign_in(Client(), "grace")
    assert Client().get("/api/v1/me/", headers=headers).status_code == 200
    assert Client().get(feed).status_code == 200


def test_a_page_costs_no_query_more_with_a_provider_than_without(
    provider: Provider, grace: Client, settings: Any
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connections["default"]) as captured:
            assert grace.get(reverse("host_list")).status_code == 200
        return len(captured)

    queries()
    with_provider = queries()
    settings.OIDC_ISSUER = ""

    assert with_provider == queries()


def test_tokens_of_the_provider_are_encrypted_again_with_a_new_key(provider: Provider, grace: Client) -> None:
    fields = {each.field for each in encrypted_fields.every()}

    assert {"refresh_encrypted", "id_token_encrypted"} <= fields


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_time_use_the_refresh_token_once_and_all_get_through(
    provider: Provider, grace: Client
) -> None:
    """A provider that rotates refresh tokens takes a second use for theft."""
    later(grace, 3 * CHECK_MIN)
    cookies = grace.cookies

    def ask() -> int:
        try:
            client = Client()
            client.cookies = cookies
            return asks(client)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        statuses = [each.result() for each in [pool.submit(ask) for _ in range(6)]]

    assert statuses == [200] * 6
    assert provider.asked == ["refresh_token"]

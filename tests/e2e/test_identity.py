"""Sign-in with a provider in a real browser: sign in, link the account, sign out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from apps.accounts.identity import mapping
from apps.accounts.models import Role, User
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import OVERFLOW, in_each_view, log_in, shot
from tests.rows import populate
from tests.servers.provider import Provider, configure, serve

pytestmark = pytest.mark.e2e


@pytest.fixture
def provider(live_server: Any, transactional_db: None, settings: Any) -> Iterator[Provider]:
    cache.clear()
    with serve() as running:
        configure(settings, running, OIDC_ROLES=mapping.instance_roles("ROLES", "dba=tuner"))
        settings.BASE_URL = live_server.url
        yield running


def _at_the_provider(page: Page, subject: str) -> None:
    page.fill("input[name=sub]", subject)
    page.click("button[type=submit]:not([value=deny])")
    page.wait_for_url(lambda url: "/oauth2/" not in url)  # back here


def test_a_user_signs_in_sees_the_requested_page_and_signs_out_at_the_provider(
    browser: Browser, provider: Provider, live_server: Any
) -> None:
    provider.user("grace", "dba")
    context = browser.new_context(base_url=live_server.url)
    page, messages = context.new_page(), []
    page.on("console", lambda message: messages.append(message.text))

    page.goto("/hosts/")
    page.get_by_role("link", name="Sign in with Example Corp").click()
    _at_the_provider(page, "grace")

    expect(page).to_have_url(f"{live_server.url}/hosts/")
    assert User.objects.get().role == Role.TUNER
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{provider.url}/oauth2/end_session**")
    page.get_by_role("button").first.click()
    page.wait_for_url(f"{live_server.url}/login/**")
    page.goto("/hosts/")
    expect(page).to_have_url(f"{live_server.url}/login/?next=/hosts/")
    assert [message for message in messages if "Content Security Policy" in message] == []
    context.close()


def test_a_user_who_links_the_account_no_longer_has_a_password(
    browser: Browser, provider: Provider, live_server: Any
) -> None:
    provider.user("o-4711", "dba")
    user = populate.user(Role.OPERATOR, "olga")
    context = browser.new_context(base_url=live_server.url)
    log_in(context, live_server.url, user)
    page = context.new_page()

    page.goto(reverse("account"))
    page.fill("#id_link_password", populate.PASSWORD)
    page.get_by_role("button", name="Link account").click()
    page.wait_for_url(f"{provider.url}/**")
    _at_the_provider(page, "o-4711")

    page.wait_for_url(live_server.url + reverse("account"))
    expect(page.get_by_text("You have signed in with Example Corp since")).to_be_visible()
    expect(page.get_by_role("button", name="Change password")).to_have_count(0)
    context.close()


@in_each_view
def test_the_pages_of_a_sign_in_fit_and_are_clean(
    browser: Browser, provider: Provider, live_server: Any, settings: Any, theme: Any, width: int
) -> None:
    provider.user("grace")
    admin = populate.user(Role.ADMIN, "ada")
    context = browser.new_context(
        base_url=live_server.url, viewport={"width": width, "height": 900}, color_scheme=theme
    )
    page = context.new_page()

    def check(name: str) -> None:
        shot(page, f"{name}-{width}-{theme}")
        assert page.evaluate(OVERFLOW) <= 0, name
        assert violations(page, *WCAG) == [], name

    page.goto(reverse("login"))
    check("identity-login")
    page.get_by_role("link", name="Sign in with Example Corp").click()
    _at_the_provider(page, "grace")
    check("identity-refused")
    provider.user("grace", "dba")
    page.goto(reverse("oidc_start"))
    _at_the_provider(page, "grace")
    page.goto(reverse("account"))
    check("identity-account-linked")
    context.clear_cookies()
    settings.BREAK_GLASS_ADMIN = "ada"
    page.goto(reverse("login"))
    check("identity-break-glass-closed")
    page.get_by_text("Log in as the break-glass admin").click()
    check("identity-break-glass")
    log_in(context, live_server.url, admin)
    page.goto(reverse("account"))
    check("identity-account-break-glass")
    settings.BREAK_GLASS_ADMIN = ""
    page.goto(reverse("account"))
    check("identity-account")
    page.goto(reverse("user_list"))
    check("identity-users")
    context.close()

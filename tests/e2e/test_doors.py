"""Pages without a login in a real browser, an invitation, and violations of the content security policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page

from apps.accounts.models import Role
from apps.accounts.team import people
from tests.e2e.axe import violations
from tests.e2e.conftest import OVERFLOW, shot
from tests.rows import populate

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_without_a_login_fit_and_have_no_console_messages_or_axe_findings(
    browser: Browser, live_server: Any, transactional_db: None, settings: Any, theme: Any
) -> None:
    settings.EMAIL_HOST, settings.BASE_URL = "mail.example.org", live_server.url
    link = people.link(populate.user(Role.VIEWER, "grace"))
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=theme)
    page, messages = context.new_page(), []
    page.on("console", lambda message: messages.append(message.text))

    for name, url in (("forgot", live_server.url + reverse("password_forgot")), ("password-set", link)):
        page.goto(url)
        shot(page, f"{name}-390-{theme}")
        assert page.evaluate(OVERFLOW) == 0
        assert violations(page) == []
    assert messages == []
    context.close()


def test_an_invited_user_chooses_a_password_and_logs_in(
    browser: Browser, live_server: Any, transactional_db: None, settings: Any
) -> None:
    settings.BASE_URL = live_server.url
    admin = populate.user(Role.ADMIN, "ada")
    link = people.link(people.invite("grace", "grace@example.org", Role.TUNER, by=admin))
    page = browser.new_page()

    page.goto(link)
    page.fill("#id_new_password1", "a longer horse battery")
    page.fill("#id_new_password2", "a longer horse battery")
    page.click("main button")
    page.fill("#id_username", "grace")
    page.fill("#id_password", "a longer horse battery")
    page.click("main button")

    page.wait_for_url(live_server.url + "/")
    assert page.locator("header").get_by_text("grace").is_visible()
    page.context.close()


def test_a_violation_of_the_content_security_policy_is_recorded(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    """Else the walk over all pages would be silent whatever they do."""
    page = open_as(team["admin"])
    page.goto("/")

    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.bad = 1'}))")

    assert page.evaluate("window.bad") is None
    assert any("Content Security Policy" in message for message in page.messages)  # type: ignore[attr-defined]

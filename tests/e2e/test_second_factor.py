"""Enrol an authenticator app, and log in with it, in a real browser."""

from __future__ import annotations

import time
from typing import Any

import pyotp
import pytest
from django.core.cache import cache
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from apps.accounts.models import Role, SecondFactor, User
from apps.accounts.second_factor import factors
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import OVERFLOW, in_each_view, log_in, shot
from tests.rows import populate

pytestmark = pytest.mark.e2e


@pytest.fixture
def olga(transactional_db: None, settings: Any, live_server: Any) -> User:
    cache.clear()
    settings.BASE_URL = live_server.url
    settings.SECOND_FACTOR_ROLES = frozenset(["operator"])
    return populate.user(Role.OPERATOR, "olga")


def _code(secret: str) -> str:
    """The present code, as if no earlier one had been used, so that the test need not wait for the next period."""
    SecondFactor.objects.update(last_period=0)
    return pyotp.TOTP(secret).generate_otp(int(time.time()) // factors.PERIOD_S)


def _enter_password(page: Page) -> None:
    page.goto(reverse("login"))
    page.fill("#id_username", "olga")
    page.fill("#id_password", populate.PASSWORD)
    with page.expect_navigation():
        page.get_by_role("button", name="Log in", exact=True).click()


def test_a_user_enrols_because_the_role_needs_it_and_logs_in_with_the_app(
    browser: Browser, live_server: Any, olga: User
) -> None:
    context = browser.new_context(base_url=live_server.url)
    page, messages = context.new_page(), []
    page.on("console", lambda message: messages.append(message.text))

    _enter_password(page)
    expect(page.get_by_text("Your role needs a second factor.")).to_be_visible()
    page.fill("#id_password", populate.PASSWORD)
    page.get_by_role("button", name="Enrol an authenticator app").click()
    expect(page.get_by_role("img", name="QR code for an authenticator app")).to_be_visible()
    secret = page.locator("#key").inner_text()
    page.fill("#id_code", _code(secret))
    page.get_by_role("button", name="Finish enrolment").click()
    recovery = page.locator("#codes").inner_text().split()
    page.get_by_role("link", name="Continue").click()
    expect(page).to_have_url(f"{live_server.url}/")

    page.get_by_role("button", name="Log out").click()
    _enter_password(page)
    page.fill("#id_code", "000000")
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_text("This code is wrong, expired, or already used.")).to_be_visible()
    page.fill("#id_code", _code(secret))
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page).to_have_url(f"{live_server.url}/")

    page.get_by_role("button", name="Log out").click()
    _enter_password(page)
    page.fill("#id_code", recovery[0])
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page).to_have_url(f"{live_server.url}/")
    page.goto(reverse("second_factor"))
    expect(page.get_by_text("Recovery codes left")).to_be_visible()
    assert factors.codes_left(olga) == len(recovery) - 1
    assert [message for message in messages if "Content Security Policy" in message] == []
    context.close()


@in_each_view
def test_the_pages_of_the_second_factor_fit_and_are_clean(
    browser: Browser, live_server: Any, olga: User, theme: Any, width: int, settings: Any
) -> None:
    context = browser.new_context(
        base_url=live_server.url, viewport={"width": width, "height": 900}, color_scheme=theme
    )
    page = context.new_page()

    def check(name: str) -> None:
        shot(page, f"factor-{name}-{width}-{theme}")
        assert page.evaluate(OVERFLOW) <= 0, name
        assert violations(page, *WCAG) == [], name

    def press(button: str) -> None:
        with page.expect_navigation():
            page.get_by_role("button", name=button, exact=True).click()

    _enter_password(page)
    check("required")
    page.fill("#id_password", populate.PASSWORD)
    press("Enrol an authenticator app")
    check("enrol")
    secret = page.locator("#key").inner_text()
    page.fill("#id_code", "000000")
    press("Finish enrolment")
    check("enrol-wrong")
    page.fill("#id_code", _code(secret))
    press("Finish enrolment")
    check("codes")
    page.goto(reverse("account"))
    check("account")
    page.goto(reverse("second_factor"))
    check("page-required")
    settings.SECOND_FACTOR_ROLES = frozenset()
    page.goto(reverse("second_factor"))
    check("page")
    press("Log out")
    _enter_password(page)
    check("second-step")
    page.fill("#id_code", "000000")
    press("Log in")
    check("second-step-wrong")
    context.clear_cookies()
    log_in(context, live_server.url, populate.user(Role.ADMIN, "ada"))
    page.goto(reverse("user_list"))
    check("users")
    with page.expect_navigation():
        page.get_by_role("link", name="Reset second factor").click()
    check("reset")
    context.close()

"""Passkeys in a real browser, whose authenticator Chromium simulates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, expect

from apps.accounts.models import AuditEntry, Passkey, Role, User
from apps.middleware.proxies import networks
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import FLAGS, OVERFLOW, in_each_view, shot
from tests.rows import populate
from tests.servers import certificates
from tests.servers.tls_proxy import tls_proxy
from tests.session.needs import find_browser

pytestmark = pytest.mark.e2e
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Device:
    """A page of a browser, and its simulated authenticator."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.messages: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.cdp: CDPSession = context.new_cdp_session(self.page)
        self.cdp.send("WebAuthn.enable")
        self.id = self.plug()

    def plug(self) -> str:
        added = self.cdp.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
        return str(added["authenticatorId"])

    def unplug(self) -> None:
        self.cdp.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": self.id})

    def credentials(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cdp.send("WebAuthn.getCredentials", {"authenticatorId": self.id})[
            "credentials"
        ]
        return found

    def put(self, credential: dict[str, Any], count: int) -> None:
        """Replace the credential by a copy of it with another signature counter."""
        key = {"authenticatorId": self.id, "credentialId": credential["credentialId"]}
        self.cdp.send("WebAuthn.removeCredential", key)
        copy = {"authenticatorId": self.id, "credential": credential | {"signCount": count}}
        self.cdp.send("WebAuthn.addCredential", copy)

    def press(self, button: str) -> None:
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=button, exact=True).click()

    def enter_password(self) -> None:
        self.page.goto(reverse("login"))
        self.page.fill("#id_username", "olga")
        self.page.fill("#id_password", populate.PASSWORD)
        self.press("Log in")

    def add(self, name: str = "laptop") -> None:
        self.page.fill("#id_name", name)
        self.press("Create passkey")


@pytest.fixture
def olga(transactional_db: None, settings: Any, live_server: Any) -> User:
    cache.clear()
    settings.BASE_URL = live_server.url
    settings.SECOND_FACTOR_ROLES = frozenset(["operator"])
    return populate.user(Role.OPERATOR, "olga")


@pytest.fixture
def open_device(browser: Browser, live_server: Any) -> Iterator[Callable[..., Device]]:
    contexts: list[BrowserContext] = []

    def opened(**options: Any) -> Device:
        contexts.append(browser.new_context(**{"base_url": live_server.url, **options}))
        return Device(contexts[-1])

    yield opened
    for context in contexts:
        context.close()


def enrolled(device: Device) -> Device:
    """The device after its user added a passkey, because the role needs a second factor."""
    device.enter_password()
    device.page.fill("#id_password", populate.PASSWORD)
    device.press("Add a passkey")
    device.add()
    device.page.get_by_role("link", name="Continue").click()
    return device


def test_a_user_adds_a_passkey_logs_in_without_a_password_and_with_both(
    open_device: Callable[..., Device], olga: User, live_server: Any
) -> None:
    device = open_device()
    page = device.page
    device.enter_password()
    expect(page.get_by_text("Your role needs a second factor.")).to_be_visible()
    page.fill("#id_password", populate.PASSWORD)
    device.press("Add a passkey")
    device.add()
    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10 and len(device.credentials()) == 1
    page.get_by_role("link", name="Continue").click()

    device.press("Log out")
    page.goto("/hosts/")
    button = page.get_by_role("button", name="Log in with a passkey")
    button.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page).to_have_url(f"{live_server.url}/hosts/")

    device.press("Log out")
    device.enter_password()
    expect(page.get_by_role("heading", name="Second step")).to_be_visible()
    device.press("Use a passkey")
    expect(page).to_have_url(f"{live_server.url}/")

    device.press("Log out")
    device.enter_password()
    page.fill("#id_code", codes[0])
    device.press("Log in with the code")
    expect(page).to_have_url(f"{live_server.url}/")
    assert Passkey.objects.get().sign_count >= 3
    assert [message for message in device.messages if "Content Security Policy" in message] == []


def test_a_user_has_two_passkeys_and_removes_the_lost_one(open_device: Callable[..., Device], olga: User) -> None:
    device = enrolled(open_device())
    page = device.page

    page.goto(reverse("second_factor"))
    page.get_by_role("button", name="Confirm with a passkey instead").click()
    expect(page.get_by_text("Confirmed with a passkey. Now choose what to do.")).to_be_visible()
    expect(page.get_by_label("Your password")).to_be_hidden()
    expect(page.get_by_role("button", name="Confirm with a passkey instead")).to_be_hidden()
    device.press("Add a passkey")
    page.fill("#id_name", "laptop")
    page.get_by_role("button", name="Create passkey").click()
    expect(page.get_by_text("you have a passkey 'laptop' already. Choose another name.")).to_be_visible()
    page.fill("#id_name", "phone")
    page.get_by_role("button", name="Create passkey").click()
    expect(page.get_by_text("This device or password manager already has a passkey for your account.")).to_be_visible()
    device.unplug()
    device.id = device.plug()
    device.add("phone")
    expect(page.get_by_text("The passkey phone is added.")).to_be_visible()

    page.get_by_role("link", name="Remove passkey laptop").click()
    page.get_by_role("button", name="Confirm with a passkey instead").click()
    expect(page.get_by_text("Confirmed with a passkey.")).to_be_visible()
    device.press("Remove passkey")
    expect(page.get_by_text("The passkey laptop is removed.")).to_be_visible()
    assert [each.name for each in Passkey.objects.all()] == ["phone"]


def test_a_copied_passkey_is_blocked(open_device: Callable[..., Device], olga: User) -> None:
    device = enrolled(open_device())
    copy = device.credentials()[0]
    for _ in range(2):
        device.press("Log out")
        device.press("Log in with a passkey")

    device.press("Log out")
    device.put(copy, copy["signCount"])
    device.press("Log in with a passkey")

    expect(device.page.get_by_text("this passkey is not accepted.")).to_be_visible()
    assert AuditEntry.objects.filter(action="passkey.block").count() == 1


def test_the_browser_says_why_a_passkey_does_not_work(
    open_device: Callable[..., Device], olga: User, live_server: Any
) -> None:
    device = open_device()
    page = device.page
    page.goto(reverse("login"))
    button, alert = page.get_by_role("button", name="Log in with a passkey"), page.locator("[data-passkey-error]")

    button.click()
    expect(alert).to_contain_text("No passkey was used: it was cancelled, took too long, or there is none")
    expect(button).to_be_focused()
    page.goto(live_server.url.replace("localhost", "127.0.0.1") + reverse("login"))
    expect(page.get_by_text(f"Passkeys work only at {live_server.url}. Open that address")).to_be_visible()
    expect(button).to_be_disabled()

    old = open_device()
    old.page.add_init_script("delete window.PublicKeyCredential")
    old.page.goto(reverse("login"))
    expect(old.page.get_by_text("This browser does not support passkeys.")).to_be_visible()
    expect(old.page.get_by_role("button", name="Log in with a passkey")).to_be_disabled()


def test_a_removed_passkey_and_an_unverified_user_are_refused(open_device: Callable[..., Device], olga: User) -> None:
    device = enrolled(open_device())
    device.press("Log out")
    device.cdp.send("WebAuthn.setUserVerified", {"authenticatorId": device.id, "isUserVerified": False})
    device.page.get_by_role("button", name="Log in with a passkey").click()
    expect(device.page.locator("[data-passkey-error]")).to_contain_text("No passkey was used")

    device.cdp.send("WebAuthn.setUserVerified", {"authenticatorId": device.id, "isUserVerified": True})
    Passkey.objects.all().delete()
    device.press("Log in with a passkey")
    expect(device.page.get_by_text("this passkey is not accepted.")).to_be_visible()


def test_a_passkey_works_behind_a_proxy_that_ends_tls(
    browser: Browser, olga: User, live_server: Any, settings: Any, tmp_path: Path
) -> None:
    certificate = certificates.certificate(tmp_path, "localhost")
    trust = f"--ignore-certificate-errors-spki-list={certificates.key_hash(certificate)}"
    trusting = browser.browser_type.launch(executable_path=find_browser(), args=[*FLAGS, trust])
    with tls_proxy(live_server.url, certificate) as port:
        settings.BASE_URL = f"https://localhost:{port}"
        settings.CSRF_TRUSTED_ORIGINS = [settings.BASE_URL]
        settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
        settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
        settings.TRUSTED_PROXIES = networks("PROXIES", ["127.0.0.0/8"])
        device = enrolled(Device(trusting.new_context(base_url=settings.BASE_URL)))
        device.press("Log out")
        device.press("Log in with a passkey")

        expect(device.page).to_have_url(f"{settings.BASE_URL}/")
        assert AuditEntry.objects.get(action="login.passkey").after["address"] == "192.0.2.9"
        trusting.close()


@in_each_view
def test_the_pages_of_passkeys_fit_and_are_clean(
    open_device: Callable[..., Device], olga: User, theme: str, width: int
) -> None:
    device = open_device(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = device.page

    def check(name: str) -> None:
        page.wait_for_load_state()
        shot(page, f"passkeys-{name}-{width}-{theme}")
        assert page.evaluate(OVERFLOW) <= 0, name
        assert violations(page, *WCAG) == [], name

    page.goto(reverse("login"))
    check("login")
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.locator("[data-passkey-error]")).to_contain_text("No passkey was used")
    check("login-error")
    device.enter_password()
    check("required")
    page.fill("#id_password", populate.PASSWORD)
    device.press("Add a passkey")
    check("new")
    device.add("laptop with a rather long name, in the office")
    check("codes")
    page.goto(reverse("second_factor"))
    check("page")
    page.get_by_role("button", name="Confirm with a passkey instead").click()
    expect(page.get_by_text("Confirmed with a passkey.")).to_be_visible()
    check("confirmed")
    Passkey.objects.update(blocked_at="2026-11-28T10:00:00Z")
    page.goto(reverse("second_factor"))
    check("blocked")
    page.get_by_role("link", name="Remove passkey").click()
    check("remove")
    page.goto(reverse("account"))
    check("account")
    device.press("Log out")
    device.enter_password()
    check("second-step")

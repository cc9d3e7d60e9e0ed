"""Debian's Chromium, and a server full of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from apps.accounts.models import User
from tests.rows import filled
from tests.session.needs import find_browser, require

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 30_000  # for what a page shows by itself, because the machine may be busy
OVERFLOW = "document.scrollingElement.scrollWidth - innerWidth"  # pixels; above 0 the page scrolls sideways
PICTURES = bool(os.environ.get("PROVING_SCREENSHOTS"))
SCREENSHOTS = Path(__file__).parents[2] / "var" / "screenshots"
# Each theme and each width once. What is too wide is so in both themes, and a colour is the same at both widths, so the
# others serve pictures only.
VIEWS = [(1440, "light"), (390, "dark"), *([(1440, "dark"), (390, "light")] if PICTURES else [])]
in_each_view = pytest.mark.parametrize(("width", "theme"), VIEWS)
# Playwright's own event loop makes Django think that it is called from asynchronous code.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    require("chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def team(transactional_db: None) -> dict[str, Any]:
    return filled.team()


@pytest.fixture
def open_as(browser: Browser, live_server: Any) -> Iterator[Callable[..., Page]]:
    """open_as(user, width=..., theme=...) -> an empty page of a browser where `user` is logged in. `page.messages` has
    its console messages."""
    contexts: list[BrowserContext] = []

    def opened(user: User, *, width: int = 1280, theme: str = "light", height: int = 900) -> Page:
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": height},
            color_scheme=theme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        contexts.append(context)
        log_in(context, live_server.url, user)
        page = context.new_page()
        page.messages = []  # type: ignore[attr-defined]
        page.on("console", lambda message: _keep(page, message.type, message.text))
        page.on("pageerror", lambda error: _keep(page, "error", str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()


def _keep(page: Any, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        page.messages.append(text)


def log_in(context: BrowserContext, url: str, user: User) -> None:
    """Gives the browser a session of `user` on the server at `url`. Tests of the form itself are in test_doors.py."""
    client = Client()
    client.force_login(user)
    session = client.cookies[settings.SESSION_COOKIE_NAME]
    context.add_cookies([{"name": session.key, "value": session.value, "url": url}])


def shot(page: Page, name: str, *, full_page: bool = True) -> None:
    """A screenshot in var/screenshots, for a visual check; no test compares it."""
    if PICTURES:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=full_page)

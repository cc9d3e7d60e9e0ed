"""Every page in a real browser: both themes, a desk and a telephone, nothing on the console, nothing for axe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests import fleets
from tests.e2e.conftest import shot
from tests.pages import pages, pages_of_fleets

pytestmark = pytest.mark.e2e
OVERFLOW = "document.scrollingElement.scrollWidth - innerWidth"


def every_page(team: dict[str, Any]) -> list[tuple[str, str]]:
    """(a name for the screenshot, address) of what a full server shows."""
    shown = [*pages(team), *pages_of_fleets(fleets.team(team["operator"]))]
    return [(name, url) for name, url, _ in shown]


def _settle(page: Page) -> None:
    """Charts are drawn, or say why not; those that wait until they are seen, are seen."""
    for plot in page.locator("[data-later]").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("[data-figure]:not([data-drawn])", state="detached")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_every_page_fits_and_is_silent(
    open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str
) -> None:
    page = open_as(team["admin"], width=width, theme=theme)
    wrong: dict[str, Any] = {}

    for name, url in every_page(team):
        page.goto(url)
        _settle(page)
        shot(page, f"{name}-{width}-{theme}")
        wide = page.evaluate(OVERFLOW)
        if wide > 0 or page.said:  # type: ignore[attr-defined]
            wrong[name] = (wide, list(page.said))  # type: ignore[attr-defined]
            page.said.clear()  # type: ignore[attr-defined]

    assert wrong == {}


def test_pages_reflow_at_320(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["admin"], width=320)

    wide = {name: _overflow(page, url) for name, url in every_page(team)}

    assert {name: by for name, by in wide.items() if by > 0} == {}


def _overflow(page: Page, url: str) -> int:
    page.goto(url)
    _settle(page)
    return int(page.evaluate(OVERFLOW))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_as: Callable[..., Page], team: dict[str, Any], theme: str) -> None:
    page = open_as(team["admin"], theme=theme)
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    found: dict[str, list[str]] = {}

    for name, url in every_page(team):
        page.goto(url)
        _settle(page)
        for violation in Axe().run(page, options=options).response["violations"]:
            nodes = [node["html"][:160] for node in violation["nodes"][:3]]
            found.setdefault(f"{violation['id']}: {violation['help']}", []).append(f"{name}: {nodes}")

    assert found == {}

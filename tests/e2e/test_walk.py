"""Every page in a real browser: both themes, desktop and phone, no console messages, no findings of axe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.documents.pages import pages, pages_of_fleets
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import OVERFLOW, WAIT_MS, in_each_view, shot
from tests.rows import fleets

pytestmark = pytest.mark.e2e
REFLOW_S = 3.0
# Scrolls to each chart that is not drawn yet, and stays until the browser has noticed.
SEE = """async () => {
  const rest = [...document.querySelectorAll("[data-figure]:not([data-drawn])")];
  for (const plot of rest) {
    plot.scrollIntoView();
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
  }
  return rest.map((plot) => plot.id);
}"""
# Types of traces that the reduced plotly.min.js does not have: Plotly draws them as lines, without a message.
NOT_DRAWN = """() => [...document.querySelectorAll("[data-figure]")].flatMap((plot) => (plot.data || [])
  .filter((trace, place) => trace.type && trace.type !== plot._fullData[place].type)
  .map((trace) => `${plot.id}: no module draws ${trace.type}`))"""


def every_page(team: dict[str, Any]) -> list[tuple[str, str]]:
    """(name of the screenshot, address) of each page of a full server."""
    shown = [*pages(team), *pages_of_fleets(fleets.team(team["operator"]))]
    return [(name, url) for name, url, _ in shown]


def _settle(page: Page) -> None:
    """Charts are drawn, or say why not; those that wait until they are seen, are seen, also if they came later."""
    deadline = time.monotonic() + WAIT_MS / 1000
    while rest := page.evaluate(SEE):
        assert time.monotonic() < deadline, f"not drawn: {rest}"
        page.wait_for_timeout(50)


@in_each_view
def test_every_page_fits_and_writes_no_console_messages(
    open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str
) -> None:
    page = open_as(team["admin"], width=width, theme=theme)
    wrong: dict[str, list[str]] = {}

    for name, url in every_page(team):
        page.goto(url)
        _settle(page)
        shot(page, f"{name}-{width}-{theme}")
        problems = [*_overflow(page), *violations(page, *WCAG)]
        if width == 390:
            problems += _reflow(page, 320)
        problems += page.evaluate(NOT_DRAWN)
        problems += page.messages  # type: ignore[attr-defined]
        if problems:
            wrong[name] = problems
            page.messages.clear()  # type: ignore[attr-defined]

    assert wrong == {}


def _overflow(page: Page) -> list[str]:
    wide = page.evaluate(OVERFLOW)
    return [f"{wide} px wider than the window"] if wide > 0 else []


def _reflow(page: Page, width: int) -> list[str]:
    """The page in a narrower window, once its charts have taken the new width."""
    size = page.viewport_size
    assert size
    page.set_viewport_size({**size, "width": width})
    deadline = time.monotonic() + REFLOW_S
    while (problems := _overflow(page)) and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    page.set_viewport_size(size)
    return [f"at {width} px: {problem}" for problem in problems]

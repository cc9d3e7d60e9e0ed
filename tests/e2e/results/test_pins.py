"""A chart saved with the keyboard is on the dashboard and links to its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.results.models import Pin
from tests.documents.pages import explored
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import in_each_view, shot

pytestmark = pytest.mark.e2e


@in_each_view
def test_a_chart_is_pinned_seen_and_followed_back_with_the_keyboard_alone(
    open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str
) -> None:
    page = open_as(team["operator"], width=width, theme=theme)
    query = {"x": "huge pages", "colour": "shared_buffers", "shape": "lines"}
    page.goto(explored(team, **query))
    expect(page.locator("#explorer-chart[data-drawn]")).to_be_visible()

    page.keyboard.press("p")
    page.wait_for_url("**/pin/explorer/**")
    expect(page.get_by_label("Title")).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Huge pages, every morning")
    shot(page, f"pin-form-{width}-{theme}")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/**")

    card = page.locator("article", has_text="Huge pages, every morning")
    expect(card.locator("[data-drawn] .main-svg").first).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    assert violations(page, *WCAG) == []
    card.get_by_role("link", name="Huge pages, every morning", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/explore/**")
    for label, value in (("Across", "huge pages"), ("Colour", "shared_buffers"), ("Chart type", "lines")):
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
    assert page.messages == []  # type: ignore[attr-defined]


def test_a_chart_is_not_requested_before_it_becomes_visible(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["viewer"], width=390, height=700)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if ".json" in request.url else None)
    last = Pin.objects.exclude(position=None).exclude(pk=team["pins"][4].pk).latest("position")

    page.goto(reverse("dashboard"))
    page.wait_for_selector("[data-drawn]")
    before = len(requests)
    page.locator(f"#plot-{last.pk}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#plot-{last.pk}[data-drawn]")

    assert before < len(requests)
    assert not any("from=1" in url for url in requests[:before])


def test_a_chart_moves_up_and_keeps_the_focus(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["operator"])
    page.goto(reverse("dashboard"))
    titles = page.locator("article h2").all_inner_texts()

    page.get_by_role("button", name=f"Move {titles[2]} up").press("Enter")
    page.wait_for_url("**moved=up-**")

    assert page.locator("article h2").all_inner_texts() == [titles[0], titles[2], titles[1], *titles[3:]]
    expect(page.get_by_role("button", name=f"Move {titles[2]} up")).to_be_focused()

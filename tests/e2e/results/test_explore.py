"""From a campaign to its decision with the keyboard, and the actions for a clicked point."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from apps.results import report
from apps.results.exchange import exports
from tests.e2e.conftest import shot

pytestmark = pytest.mark.e2e


def _to(page: Page, name: str) -> None:
    """Tab until the link or button of this name has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"{name} is not reached with Tab")


def test_from_a_campaign_to_a_decision_with_the_keyboard_alone(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    page = open_as(team["tuner"])
    page.goto(reverse("campaign_detail", args=[team["split"].pk]))

    _to(page, "Explore")
    page.keyboard.press("Enter")
    expect(page.locator("#explorer-chart[data-drawn]")).to_be_visible()
    page.get_by_label("Chart type").focus()
    page.keyboard.type("heat")
    page.wait_for_url("**shape=heat**")
    expect(page.locator("#explorer-chart[data-drawn]")).to_be_visible()

    page.goto(reverse("campaign_detail", args=[team["split"].pk]))
    for key in ("j", "a", "j", "b", "c"):
        page.keyboard.press(key)
    page.wait_for_url("**/compare/**")
    expect(page.locator(".answer")).to_contain_text("huge pages=on is better than shared_buffers=8GB, huge pages=off")

    page.go_back()
    _to(page, "Write a decision")
    page.keyboard.press("Enter")
    page.wait_for_url("**/decisions/new/**")
    assert page.messages == []  # type: ignore[attr-defined]


def test_a_point_of_a_chart_opens_its_run_or_becomes_a_side(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["viewer"])
    page.goto(reverse("campaign_explore", args=[team["split"].pk]) + "?shape=strip")
    page.wait_for_selector("#explorer-chart[data-drawn]")
    page.evaluate(
        """() => { const plot = document.getElementById("explorer-chart");
        const trace = plot.data.find((each) => each.customdata);
        plot.emit("plotly_click", { points: [{ customdata: trace.customdata[0], y: trace.y[0] }] }); }"""
    )

    expect(page.locator(".picked-point")).to_contain_text("8GB, off")
    page.locator(".picked-point").get_by_role("button", name="Set A").click()
    expect(page.locator("[data-picked]")).to_contain_text("A: Run")
    shot(page, "explore-point-1280-light")
    page.locator(".picked-point").get_by_role("link", name="Open run").click()
    page.wait_for_url("**/runs/**")
    expect(page.locator("[data-picked]")).to_contain_text("A: Run")


def test_a_refused_chart_is_requested_again(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    """The server refuses charts of a user who has too many at a time (apps/middleware/turns.py)."""
    page, asked = open_as(team["viewer"]), list[float]()
    page.add_init_script("Math.random = () => 0.9")  # charts that are refused together wait for different times

    def refuse_once(route: Route) -> None:
        asked.append(time.monotonic())
        if len(asked) > 1:
            route.continue_()
        else:
            route.fulfill(status=429, headers={"Retry-After": "1"}, json={"title": "8 are in progress", "hint": "wait"})

    page.route("**/explore/chart.json*", refuse_once)
    page.goto(reverse("campaign_explore", args=[team["split"].pk]))

    expect(page.locator("#explorer-chart .main-svg").first).to_be_visible()
    assert asked[1] - asked[0] > 1.8


@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_opens_without_a_network(
    open_as: Callable[..., Page], team: dict[str, Any], tmp_path: Path, width: int
) -> None:
    campaign = exports.campaigns().get(pk=team["split"].pk)
    file = tmp_path / "report.html"
    file.write_text("".join(report.report_html(campaign)))
    page = open_as(team["viewer"], width=width)
    page.messages.clear()  # type: ignore[attr-defined]
    page.context.set_offline(True)

    page.goto(file.as_uri())

    expect(page.locator(".plot .main-svg").first).to_be_visible()
    assert page.locator("[data-plot]").count() == page.locator(".plot .plot-container").count() == 3
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    shot(page, f"report-{width}")
    assert page.messages == []  # type: ignore[attr-defined]

"""The chart of a long run: zoom, steps and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page

from apps.campaigns.models import Run
from apps.results.store import fold
from tests.apps.results.runs.test_latency_charts import keep, report
from tests.apps.results.store.test_series import BEGAN, tell

pytestmark = pytest.mark.e2e


def long(run: Run) -> None:
    """Two steps, of an hour each, with a spike in the second."""
    run.events.filter(kind__in=("measuring", "sample", "progress")).delete()
    run.series.all().delete()
    steps = [("fill", "warm"), ("idx1", "measure")]
    run.spec["steps"] = [{"name": name, "role": role, "kind": "pgbench", "options": {}} for name, role in steps]
    run.save()
    for place, (name, _) in enumerate(steps):
        began = BEGAN + 3700 * place
        tell(run, ("measured", {"step": name, "began": began, "ended": began + 3600, "costs": {}}))
        tps = np.full(3600, 9000.0)
        tps[1800] = 1200.0
        fold.append(run, name, "pgbench", {"t": np.arange(3600.0), "tps": tps})


POINTS = "document.getElementById('run-chart').data[0].x.length"


def settled(page: Page, until: str = "true") -> None:
    """Wait until charts are drawn, and `until` is true in the page: a busy machine takes long to draw one again."""
    page.wait_for_selector(".plot[data-drawn]")
    page.wait_for_timeout(900)
    page.wait_for_function(f"() => {until}")


def zoomed(whole: int) -> str:
    """That the chart was drawn again, for the part of the time that the address has."""
    return f"location.search.includes('from=') && {POINTS} !== {whole}"


def unzoomed(whole: int) -> str:
    return f"!location.search.includes('from=') && {POINTS} === {whole}"


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def points(page: Page) -> int:
    return int(page.evaluate(POINTS))


def test_a_zoom_has_more_detail_an_address_and_a_link_back(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    run = team["ok_run"]
    long(run)
    page = open_as(team["operator"])
    page.goto(f"/runs/{run.pk}/")
    settled(page)
    whole = points(page)
    box = page.locator("#run-chart .nsewdrag").first.bounding_box()
    assert box

    page.mouse.move(box["x"] + 700, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 800, box["y"] + 60, steps=4)
    page.mouse.up()
    settled(page, zoomed(whole))

    begin, end = (float(query(page)[name][0]) for name in ("from", "to"))
    assert 3700 < begin < end < 6000
    assert points(page) == pytest.approx(end - begin, abs=4) and points(page) < whole
    assert page.get_by_text("Show the whole time").is_visible()
    assert "from=" in str(page.get_by_role("link", name="CSV", exact=True).get_attribute("href"))
    page.reload()
    settled(page)
    assert points(page) == pytest.approx(end - begin, abs=4)

    page.get_by_text("Show the whole time").click()
    settled(page, unzoomed(whole))
    assert (points(page), "from" in query(page)) == (whole, False)
    assert page.messages == []  # type: ignore[attr-defined]


def test_the_address_contains_the_chosen_step(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    run = team["ok_run"]
    long(run)
    page = open_as(team["operator"])
    page.goto(f"/runs/{run.pk}/?from=10&to=20")
    settled(page)

    page.locator("details.chooser summary").click()
    page.select_option("#chart-step", "idx1")
    settled(page)

    assert (query(page)["step"], "from" in query(page)) == (["idx1"], False)
    title = page.evaluate("document.getElementById('run-chart').layout.xaxis.title.text")
    assert title == "seconds since the step began"


def test_all_charts_of_a_run_zoom_together(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    run = team["ok_run"]
    long(run)
    keep(run, "out/idx1/latency.json", report(*[[1000]] * 3600, first=int(BEGAN) + 3700))
    page = open_as(team["operator"])
    page.goto(f"/runs/{run.pk}/")
    settled(page)
    page.locator("#run-heat-1").scroll_into_view_if_needed()
    page.wait_for_selector("#run-heat-1[data-drawn]")
    settled(page)
    whole, columns = points(page), "document.getElementById('run-heat-1').data[0].x"
    page.locator("#run-heat-1").scroll_into_view_if_needed()
    box = page.locator("#run-heat-1 .nsewdrag").first.bounding_box()
    assert box and page.evaluate(f"{columns}.length") < 1000 < 3600

    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 60, steps=4)
    page.mouse.up()
    settled(page, f"{zoomed(whole)} && {columns}[1] - {columns}[0] === 1")

    begin, end = (float(query(page)[name][0]) for name in ("from", "to"))
    assert page.evaluate(f"{columns}[1] - {columns}[0]") == 1
    assert page.evaluate(f"{columns}.length") == pytest.approx(end - begin, abs=3)
    assert points(page) == pytest.approx(end - begin, abs=4) and points(page) < whole
    page.get_by_text("Show the whole time").click()
    settled(page, unzoomed(whole))
    assert points(page) == whole and page.messages == []  # type: ignore[attr-defined]


def test_a_chart_is_drawn_as_it_comes_into_view_with_the_time_of_the_others(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    """A run of many steps requested all of its charts at once, more than a user may have."""
    run = team["ok_run"]
    long(run)
    keep(run, "out/idx1/latency.json", report(*[[1000]] * 3600, first=int(BEGAN) + 3700))
    page = open_as(team["operator"], height=400)
    page.goto(f"/runs/{run.pk}/")
    settled(page)
    page.locator("#run-chart").scroll_into_view_if_needed()
    box = page.locator("#run-chart .nsewdrag").first.bounding_box()
    assert box
    assert page.locator("#run-heat-1").get_attribute("data-drawn") is None

    page.mouse.move(box["x"] + 700, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 800, box["y"] + 60, steps=4)
    page.mouse.up()
    settled(page)
    assert page.locator("#run-heat-1").get_attribute("data-drawn") is None
    page.locator("#run-heat-1").scroll_into_view_if_needed()
    page.wait_for_selector("#run-heat-1[data-drawn]")

    begin, end = (float(query(page)[name][0]) for name in ("from", "to"))
    columns = page.evaluate("document.getElementById('run-heat-1').data[0].x.length")
    assert columns == pytest.approx(end - begin, abs=3)
    assert page.messages == []  # type: ignore[attr-defined]

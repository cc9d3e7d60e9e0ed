"""The panels of a run: one crosshair through all, legends that switch lines, and a choice that is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from apps.campaigns.models import Run
from apps.results.models import Mark, StepStability
from apps.results.runs import stability
from apps.results.store import fold
from tests.apps.results.store.test_series import BEGAN, tell
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import in_each_view, shot
from tests.e2e.test_walk import _overflow

pytestmark = pytest.mark.e2e

SECONDS = 240
EVENTS = ("running", "IO:DataFileRead", "IO:WalSync", "LWLock:WALWrite", "Lock:transactionid", "Client:ClientRead")
EVENTS += ("LWLock:BufferContent", "IO:DataFileWrite")


def rich(run: Run) -> None:
    """Four minutes with a slow start, checkpoints, a stall, waits of eight kinds, WAL and CPUs."""
    run.events.filter(kind__in=("measuring", "measured", "sample", "progress")).delete()
    run.series.all().delete()
    run.step_stabilities.all().delete()
    tell(run, ("measured", {"step": "measure", "began": BEGAN, "ended": BEGAN + SECONDS, "costs": {}}))
    random, t = np.random.default_rng(7), np.arange(1.0, SECONDS + 1)
    tps = 4200 * (1 - 0.5 * np.exp(-t / 15)) + random.normal(0, 60, SECONDS)
    tps[(t > 150) & (t <= 156)] = 0
    waits = {f"wait.{name}": random.poisson(8 / (place + 1), SECONDS) * 1.0 for place, name in enumerate(EVENTS)}
    waits["wait.IO:WalSync"][:60] = np.nan
    sources: dict[str, dict[str, Any]] = {
        "pgbench": {"tps": tps, "latency_ms": 8000 / np.maximum(tps, 400), "stddev_ms": random.gamma(2, 0.3, SECONDS)},
        "postgresql": {**waits, "pg_stat_wal.wal_bytes": tps * 600},
        "cpu": {"user": 60 + random.normal(0, 3, SECONDS), "system": 20 + random.normal(0, 2, SECONDS)},
    }
    for source, columns in sources.items():
        fold.append(run, "measure", source, {"t": t, **columns})
    for begin in (60.0, 180.0):
        data = {"buffers": 2075, "write_s": 25.0}
        Mark.objects.create(
            run=run, step="measure", kind="checkpoint", t=begin, until=begin + 30, label="wal", data=data
        )
    StepStability.objects.bulk_create(stability.stability_findings(run))


@pytest.fixture
def run(team: dict[str, Any]) -> Run:
    ended_run: Run = team["ok_run"]
    rich(ended_run)
    return ended_run


def opened(page: Page, run: Run, query: str = "") -> Page:
    page.goto(f"/runs/{run.pk}/{query}")
    page.wait_for_selector("#run-chart[data-drawn] .panel-legend")
    page.wait_for_timeout(300)
    return page


@in_each_view
def test_the_page_of_a_run_fits_and_axe_finds_nothing(
    open_as: Callable[..., Page], team: dict[str, Any], run: Run, width: int, theme: str
) -> None:
    page = opened(open_as(team["operator"], width=width, theme=theme), run)

    shot(page, f"panels-{width}-{theme}")

    assert _overflow(page) + violations(page, *WCAG) + page.messages == []  # type: ignore[attr-defined]


def test_each_panel_has_its_time_axis_and_waits_are_areas(
    open_as: Callable[..., Page], team: dict[str, Any], run: Run
) -> None:
    page = opened(open_as(team["operator"]), run)

    axes = page.evaluate(
        "Object.keys(document.getElementById('run-chart').layout).filter(k => /^xaxis/.test(k)).length"
    )
    panels = page.locator("#run-chart .panel-legend").count()
    assert axes == panels >= 4
    labelled = (
        "[...document.querySelectorAll('#run-chart .xaxislayer-above')].filter(g => g.textContent.includes('100'))"
    )
    assert page.evaluate(f"{labelled}.length") == panels
    stacked = page.evaluate("document.getElementById('run-chart').data.filter(t => t.stackgroup).map(t => t.name)")
    assert stacked[0] == "running" and stacked[-1] == "3 others" and len(stacked) == 6


def test_one_crosshair_shows_the_time_and_every_value_in_all_panels(
    open_as: Callable[..., Page], team: dict[str, Any], run: Run
) -> None:
    page = opened(open_as(team["operator"]), run)
    box = page.locator("#run-chart .nsewdrag").first.bounding_box()
    assert box

    page.mouse.move(box["x"] + box["width"] * 100 / SECONDS, box["y"] + 20)

    line = page.locator("#run-chart .crosshair")
    t = float(str(line.get_attribute("data-t")).removesuffix(" s"))
    values = page.locator("#run-chart .panel-legend .value").all_text_contents()
    tall = line.bounding_box()
    assert t == pytest.approx(100, abs=2) and tall and tall["height"] > 800
    assert len(values) >= 9 and all(values) and "–" not in values
    shot(page, "panels-crosshair")
    page.mouse.move(box["x"] + 10, 5)
    expect(line).to_have_count(0)


def test_a_line_is_switched_off_by_key_and_stays_off(
    open_as: Callable[..., Page], team: dict[str, Any], run: Run
) -> None:
    page = opened(open_as(team["operator"]), run)
    button = page.get_by_role("button", name="latency_ms")
    button.focus()

    page.keyboard.press("Enter")

    expect(button).to_have_attribute("aria-pressed", "false")
    expect(button).to_be_focused()
    visible = "document.getElementById('run-chart').data.find(t => t.name === 'latency_ms').visible"
    assert page.evaluate(visible) == "legendonly"
    page.evaluate("window.provingCharts.draw(document.getElementById('run-chart'))")
    page.wait_for_timeout(500)
    assert page.evaluate(visible) == "legendonly"
    page.get_by_role("button", name="latency_ms").click()
    assert page.evaluate(visible) is True


def test_panels_are_found_by_name_and_the_choice_is_remembered(
    open_as: Callable[..., Page], team: dict[str, Any], run: Run
) -> None:
    page = opened(open_as(team["operator"]), run)
    page.locator("details.chooser summary").click()
    page.get_by_label("Find a panel").fill("wait events")
    expect(page.locator(".sources label:visible")).to_have_count(1)

    page.get_by_label("wait events").uncheck()
    page.wait_for_function("() => location.search.includes('panel=')")
    opened(page, run)

    names = "document.getElementById('run-chart').data.map(t => t.meta)"
    assert not any("wait" in (name or "") for name in page.evaluate(names))
    page.locator("details.chooser summary").click()
    expect(page.get_by_label("wait events")).not_to_be_checked()
    page.get_by_role("button", name="Show usual panels").click()
    page.wait_for_function(f"() => {names}.some(name => (name || '').includes('wait'))")
    assert page.evaluate("localStorage.getItem('proving.panels')") == "{}"


@in_each_view
def test_two_runs_are_compared_over_time(
    open_as: Callable[..., Page], team: dict[str, Any], run: Run, width: int, theme: str
) -> None:
    other = run.campaign.runs.filter(outcome="ok").exclude(pk=run.pk).order_by("position")[0]
    rich(other)
    page = open_as(team["operator"], width=width, theme=theme)

    page.goto(f"/compare/?of=run:{run.pk}&of=run:{other.pk}")

    page.wait_for_selector("#compare-time[data-drawn] .panel-legend")
    page.wait_for_selector("[data-figure]:not([data-drawn])", state="detached")
    expect(page.get_by_role("button", name="B tps")).to_be_visible()
    shot(page, f"compare-runs-{width}-{theme}")
    areas = page.get_by_role("button", name="running")
    areas.last.click()
    expect(areas.last).to_be_focused()
    states = "document.getElementById('compare-time').data.filter(t => t.name === 'running').map(t => t.visible)"
    assert page.evaluate(states) == ["legendonly", "legendonly"]
    assert [area.get_attribute("aria-pressed") for area in areas.all()] == ["false", "false"]
    assert _overflow(page) + violations(page, *WCAG) + page.messages == []  # type: ignore[attr-defined]

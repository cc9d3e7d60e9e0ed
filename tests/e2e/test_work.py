"""Tasks in a browser: create a campaign with its live preview, follow a run, keys, themes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from apps.campaigns.models import Campaign, Run, RunEvent
from tests.e2e.conftest import WAIT_MS
from tests.rows import populate

pytestmark = pytest.mark.e2e

COUNT_DRAWINGS = """() => {
  window.drawings = 0;
  for (const name of ["extendTraces", "redraw", "react"]) {
    const draw = Plotly[name];
    Plotly[name] = (...parts) => { window.drawings += 1; return draw(...parts); };
  }
}"""


@pytest.fixture
def live_team(transactional_db: None) -> dict[str, Any]:
    """Made now, not copied: a page says when the last sample of a run is some seconds old."""
    return populate.team()


def test_recipes_are_filtered_while_the_user_types(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["operator"])
    page.goto(reverse("campaign_new"))

    page.get_by_label("Search", exact=True).fill("wal_compression")

    expect(page.locator("#recipes").get_by_role("status")).to_contain_text("1 of ")
    expect(page.locator("#recipes .recipe")).to_have_count(1)
    page.get_by_label("Search", exact=True).fill("")
    page.get_by_label("Topic").select_option("Storage")
    expect(page.get_by_label("Use the recipe Storage qualification")).to_be_visible()
    expect(page.get_by_label("Use the recipe CPU isolation and scaling")).not_to_be_visible()


def test_campaigns_are_archived_many_at_once(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["operator"])
    page.goto(reverse("campaign_list") + "?state=finished")
    names = page.locator("tbody th").all_inner_texts()

    page.get_by_label("Select all on this page").check()
    page.get_by_label(f"Select {names[0]}", exact=True).uncheck()
    page.get_by_role("button", name="Archive").click()

    expect(page.get_by_text("Archived: ")).to_be_visible()
    assert page.locator("tbody th").all_inner_texts() == names[:1]


def test_a_campaign_is_planned_counted_and_started(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["operator"])
    page.goto(reverse("campaign_new"))
    page.click("[aria-label='Use the recipe CPU isolation and scaling']")
    page.get_by_role("link", name="bench-01", exact=True).click()

    expect(page.locator("#preview")).to_contain_text("15 runs")
    page.get_by_label("Repetitions").fill("4")
    expect(page.locator("#preview")).to_contain_text("20 runs")
    page.get_by_label("Remove this row").last.click()
    expect(page.locator("#preview")).to_contain_text("16 runs")
    page.get_by_label("Value", exact=True).last.fill("99")
    expect(page.locator("#preview")).to_contain_text("cannot be planned")
    page.click("text=Save draft")
    expect(page.locator("#rows .error")).to_contain_text("99")
    page.get_by_label("Value", exact=True).last.fill("0-7")
    page.click("text=Save draft")
    page.wait_for_url("**/campaigns/*-*/")
    page.click("button:has-text('Start')")

    expect(page.locator("#status")).to_contain_text("0 of 16 runs ended")
    assert Campaign.objects.latest("created_at").runs.count() == 16
    assert [text for text in page.messages if "422" not in text] == []  # type: ignore[attr-defined]


def test_the_page_of_a_run_follows_it_while_it_runs(open_as: Callable[..., Page], live_team: dict[str, Any]) -> None:
    run = live_team["live_run"]
    page = open_as(live_team["operator"])
    page.goto(reverse("run_detail", args=[run.pk]))
    page.wait_for_selector("[data-figure][data-drawn]")
    expect(page.locator("[data-live-clock]")).to_contain_text("last sample")

    _tell(run, 4.0, 12345.0)

    expect(page.locator("[data-live-figure]")).to_have_text("12\u202f345 TPS", timeout=WAIT_MS)
    drawn = "document.getElementById('run-chart').data.find(trace => trace.name === 'tps').y"
    page.wait_for_function(f"() => {drawn}.includes(12345)", timeout=WAIT_MS)
    expect(page.locator("[data-live-clock]")).not_to_have_class("clock stale")
    expect(page.locator("[data-live-clock]")).to_have_class("clock stale", timeout=WAIT_MS)
    expect(page.locator("[data-live-clock]")).to_contain_text("s ago: the host's agent is silent")
    assert page.messages == []  # type: ignore[attr-defined]


def test_samples_of_several_collectors_are_drawn_together(
    open_as: Callable[..., Page], live_team: dict[str, Any]
) -> None:
    run = live_team["live_run"]
    page = open_as(live_team["operator"])
    page.goto(reverse("run_detail", args=[run.pk]))
    page.wait_for_selector("[data-figure][data-drawn]")
    expect(page.locator("[data-live-clock]")).to_contain_text("last sample")
    page.evaluate(COUNT_DRAWINGS)

    with transaction.atomic():
        for second in (4.0, 5.0, 6.0):
            _tell(run, second, 12345.0)
            _add_sample(run, second, "cpu", {"busy": 44.0, **{f"cpu{n}.busy": 90.0 for n in range(4)}})

    tps = "document.getElementById('run-chart').data.find(trace => trace.name === 'tps')"
    page.wait_for_function(f"() => {tps}.x.includes(6)")
    assert page.evaluate("drawings") <= 2  # one of earlier samples can still be due


def test_a_panel_appears_with_the_first_sample_of_its_source(
    open_as: Callable[..., Page], live_team: dict[str, Any]
) -> None:
    run = live_team["live_run"]
    run.events.filter(kind="sample", data__source="pgbench").delete()
    page = open_as(live_team["operator"])
    page.goto(reverse("run_detail", args=[run.pk]))
    page.wait_for_selector("[data-figure][data-drawn]")
    expect(page.locator("[data-live-clock]")).to_contain_text("last sample")
    drawn = "() => (document.getElementById('run-chart').data || []).some(trace => trace.name === 'tps')"
    assert not page.evaluate(drawn)

    _tell(run, 4.0, 12345.0)

    page.wait_for_function(drawn, timeout=WAIT_MS)


def test_the_time_left_of_a_step_counts_down_between_progress_events(
    open_as: Callable[..., Page], live_team: dict[str, Any]
) -> None:
    run = live_team["live_run"]
    seq = run.events.order_by("-seq")[0].seq + 1
    progress = {"step": "measure", "done": 0.5, "eta_s": 90.0, "note": ""}
    RunEvent.objects.create(run=run, seq=seq, at=timezone.now(), kind="progress", data=progress)
    Run.objects.filter(pk=run.pk).update(last_seq=seq)
    page = open_as(live_team["operator"])

    page.goto(reverse("run_detail", args=[run.pk]))

    eta = page.locator("[data-live-eta]")
    expect(eta).to_contain_text("about 1 min")
    first = str(eta.text_content())
    page.wait_for_timeout(3000)
    seconds = [int(text.split(" min ")[1].split(" s")[0]) for text in (first, str(eta.text_content()))]
    assert 2 <= seconds[0] - seconds[1] <= 20


def test_the_answer_of_a_running_campaign_changes_with_its_results(
    open_as: Callable[..., Page], live_team: dict[str, Any]
) -> None:
    run = live_team["live_run"]
    page = open_as(live_team["operator"])
    page.goto(reverse("campaign_detail", args=[run.campaign_id]))
    page.wait_for_selector("#campaign-chart[data-drawn]")
    page.evaluate("window.stays = true")
    before = str(page.locator(".answer-card").text_content())
    left = page.locator("[data-eta]")
    expect(left).to_be_visible()

    run.events.all().delete()
    populate.end_well(run, timezone.now() - timedelta(seconds=9), 30_000.0)

    expect(page.locator(".answer-card")).not_to_have_text(before, timeout=WAIT_MS)
    assert page.evaluate("window.stays") is True


def _tell(run: Run, t: float, tps: float) -> None:
    """What a tick commits while the run is followed."""
    _add_sample(run, t, "pgbench", {"tps": tps, "latency_ms": 0.6})


def _add_sample(run: Run, t: float, source: str, values: dict[str, float]) -> None:
    seq = run.events.order_by("-seq")[0].seq + 1
    sample = {"step": "measure", "source": source, "t": t, "values": values}
    RunEvent.objects.create(run=run, seq=seq, at=timezone.now(), kind="sample", data=sample)
    Run.objects.filter(pk=run.pk).update(last_seq=seq)


def test_a_run_that_ends_becomes_its_final_page(open_as: Callable[..., Page], live_team: dict[str, Any]) -> None:
    run = live_team["live_run"]
    page = open_as(live_team["operator"])
    page.goto(reverse("run_detail", args=[run.pk]))

    run.events.all().delete()
    populate.end_well(run, timezone.now() - timedelta(seconds=9), 9800.0)

    expect(page.locator("#measurements-title")).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("[data-live]")).to_have_count(0)


def test_a_run_that_ends_while_the_user_leaves_its_page_does_not_reload_it(
    open_as: Callable[..., Page], live_team: dict[str, Any]
) -> None:
    run = live_team["live_run"]
    page = open_as(live_team["operator"])
    page.goto(reverse("run_detail", args=[run.pk]))
    expect(page.locator("[data-live-clock]:not(.stale)")).to_be_visible()

    def slowly(route: Route) -> None:
        run.events.all().delete()
        populate.end_well(run, timezone.now() - timedelta(seconds=9), 9800.0)
        time.sleep(2)
        route.continue_()

    page.route(f"**{reverse('campaign_detail', args=[run.campaign_id])}", slowly)
    page.evaluate(f"location.href = '{reverse('campaign_detail', args=[run.campaign_id])}'")

    page.wait_for_url("**/campaigns/**")
    page.wait_for_selector("[data-figure][data-drawn]")
    assert "/campaigns/" in page.url
    page.goto("about:blank")  # ends its streams


def test_the_page_of_a_campaign_follows_its_runs(open_as: Callable[..., Page], live_team: dict[str, Any]) -> None:
    page = open_as(live_team["viewer"])
    page.goto(reverse("campaign_detail", args=[live_team["running"].pk]))
    expect(page.locator("#status")).to_contain_text("4 of 15 runs ended")

    live_team["live_run"].events.all().delete()
    populate.end_well(live_team["live_run"], timezone.now() - timedelta(seconds=9), 9800.0)

    expect(page.locator("#status")).to_contain_text("5 of 15 runs ended", timeout=WAIT_MS)
    page.wait_for_function("() => document.getElementById('campaign-chart').data[0].y.length === 5")
    assert page.messages == []  # type: ignore[attr-defined]


def test_keys_walk_rows_search_help_and_can_be_switched_off(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["viewer"])
    page.goto(reverse("host_list"))

    first, second = page.locator("[data-row] a").all_inner_texts()[:2]
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == second
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == first
    page.keyboard.press("/")
    page.keyboard.type("bench-03j")
    assert page.input_value("#q") == "bench-03j"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.uncheck("[data-keys-switch]")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).not_to_be_visible()


def test_the_theme_follows_the_system_until_it_is_chosen(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["viewer"], theme="dark")
    page.goto("/")
    html = page.locator("html")
    expect(html).to_have_attribute("data-theme", "dark")

    page.click("[data-theme-toggle]")
    page.goto(reverse("host_list"))

    expect(html).to_have_attribute("data-theme", "light")


def test_a_point_of_the_chart_leads_to_its_run(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["viewer"])
    page.goto(reverse("campaign_detail", args=[team["finished"].pk]))
    page.wait_for_selector("[data-figure][data-drawn]")
    page.wait_for_selector("#campaign-chart path.point")
    markers = page.locator("#campaign-chart path.point").count()

    page.locator("#campaign-chart .scatterlayer .trace").first.locator("path.point").first.hover(force=True)
    page.mouse.down()
    page.mouse.up()
    assert page.locator("#campaign-chart path.point").count() == markers
    page.locator(".picked-point").get_by_role("link", name="Open run").click()

    page.wait_for_url("**/runs/**")


def test_slash_opens_the_search_which_finds_decisions_of_a_host(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    page = open_as(team["viewer"])
    page.goto(reverse("host_detail", args=[team["host"].name]))
    expect(page.get_by_role("alert").first).to_contain_text("PostgreSQL was 17.6 and is 18.6.")

    page.keyboard.press("/")
    page.get_by_label("Text").fill("batch job")
    page.keyboard.press("Enter")

    expect(page.locator("mark").first).to_have_text("batch")

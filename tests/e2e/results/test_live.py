"""A live page whose server stops and starts again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, Route, expect

from apps.campaigns.models import Campaign
from tests.apps.web_server import WebServer
from tests.e2e.conftest import WAIT_MS, log_in, shot
from tests.e2e.test_work import _tell
from tests.rows import populate

pytestmark = pytest.mark.e2e


@pytest.fixture
def team(transactional_db: None) -> dict[str, Any]:
    """Made now, not copied: a page says when the last sample of a run is some seconds old."""
    return populate.team()


@pytest.fixture
def web(team: dict[str, Any]) -> Iterator[WebServer]:
    served = WebServer()
    yield served
    served.stop()


@pytest.fixture
def page(browser: Browser, web: WebServer, team: dict[str, Any]) -> Iterator[Page]:
    context = browser.new_context(base_url=web.url, reduced_motion="reduce")
    log_in(context, web.url, team["operator"])
    yield context.new_page()
    context.close()


def follow(page: Page, path: str) -> list[str]:
    """Opens the page of a run; the addresses that it asks for from then on."""
    page.goto(path)
    page.wait_for_selector("[data-figure][data-drawn]")
    expect(page.locator("[data-live-clock]")).to_contain_text("last sample")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    return requests


def test_points_come_without_a_request_and_a_lost_connection_is_shown_until_it_is_back(
    page: Page, web: WebServer, team: dict[str, Any]
) -> None:
    run = team["live_run"]
    web.start()
    requests = follow(page, reverse("run_detail", args=[run.pk]))

    _tell(run, 4.0, 12345.0)
    expect(page.locator("[data-live-figure]")).to_have_text("12\u202f345 TPS", timeout=WAIT_MS)
    assert requests == []

    web.stop()
    clock = page.locator("[data-live-clock]")
    expect(clock).to_contain_text("connection lost, reconnecting", timeout=WAIT_MS)
    expect(clock).to_have_class("clock stale")
    shot(page, "live-lost")

    _tell(run, 5.0, 23456.0)
    web.start()

    expect(page.locator("[data-live-figure]")).to_have_text("23\u202f456 TPS", timeout=WAIT_MS)
    expect(clock).not_to_contain_text("connection lost")
    tps = "document.getElementById('run-chart').data.find(trace => trace.name === 'tps').y"
    page.wait_for_function(f"() => {tps}.includes(23456)", timeout=WAIT_MS)
    drawn = page.evaluate(tps)
    assert [drawn.count(12345.0), drawn.count(23456.0)] == [1, 1]


def test_a_page_that_gets_no_stream_polls(page: Page, web: WebServer, team: dict[str, Any]) -> None:
    run = team["live_run"]
    web.start(PROVING_LIVE_STREAMS="0")
    requests = follow(page, reverse("run_detail", args=[run.pk]))

    _tell(run, 4.0, 12345.0)

    expect(page.locator("[data-live-figure]")).to_have_text("12\u202f345 TPS", timeout=WAIT_MS)
    expect(page.locator("[data-live-clock]")).not_to_contain_text("lost")
    assert any("live.json" in url for url in requests)


def test_a_campaign_that_changes_while_its_page_is_brought_up_to_date_is_shown_as_it_is(
    page: Page, web: WebServer, team: dict[str, Any]
) -> None:
    campaign = Campaign.objects.get(runs=team["live_run"])
    web.start()
    held: list[str] = []

    def hold(route: Route) -> None:
        """Answer the first refresh late, with the content of the time of the request."""
        answer = route.fetch()
        if "hx-request" in route.request.headers and not held:
            held.append(answer.text())
            Campaign.objects.filter(pk=campaign.pk).update(state=Campaign.State.PAUSED, state_reason="for the night")
            time.sleep(5)
        route.fulfill(response=answer)

    page.route(lambda url: url.endswith(f"/campaigns/{campaign.pk}/"), hold)
    page.goto(reverse("campaign_detail", args=[campaign.pk]))

    expect(page.locator("#status")).to_contain_text("for the night", timeout=WAIT_MS)
    assert "for the night" not in held[0]

"""The recipe cpu-scaling through the browser, on the whole stack: real worker, real agent, real pgbench."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import shot
from tests.servers.ground import Ground

pytestmark = pytest.mark.e2e


@pytest.fixture
def page(browser: Browser, ground: Ground) -> Iterator[Page]:
    """Logged in as an admin."""
    password = ground.stack.manage("create_admin", "bea").split()[-1]
    context = browser.new_context(base_url=ground.stack.base_url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto("/login/")
    page.fill("#id_username", "bea")
    page.fill("#id_password", password)
    page.click("main button")
    yield page
    context.close()


def test_a_campaign_goes_from_the_recipe_to_its_verdict(page: Page, ground: Ground) -> None:
    page.goto("/campaigns/new/")
    page.click("[aria-label='Use the recipe CPU isolation and scaling']")
    page.get_by_role("link", name=ground.host["name"], exact=True).click()
    page.get_by_label("Repetitions").fill("1")
    page.click("text=Save draft")
    page.click("button:has-text('Start')")
    campaign = page.url

    running = page.locator("#status a[href*='/runs/'], table a[href*='/runs/']").first
    running.click()
    expect(page.locator(".headline .state").first).to_contain_text("running")
    fresh = page.locator("[data-live]:has([data-live-clock]:not(.stale)) [data-live-figure]:has-text('TPS')")
    expect(fresh).to_be_visible(timeout=60_000)  # in one look: the load runs for five seconds
    shot(page, "real-run-live")

    # The page reloads itself when its run ends, and must not do so in the middle of goto().
    expect(page.locator(".headline .state").first).not_to_contain_text("running", timeout=120_000)
    page.goto(campaign)
    expect(page.locator("body")).to_contain_text("finished", timeout=120_000)
    page.reload()
    page.wait_for_selector("[data-figure][data-drawn]")
    shot(page, "real-campaign")
    expect(page.locator("body")).to_contain_text("1 of 1 proven")
    expect(page.locator("body")).to_contain_text("Too few runs to compare")

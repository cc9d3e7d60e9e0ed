"""A question about a setting through the browser, on the whole stack: real worker, real agent, real pgbench."""

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


def test_a_question_about_a_setting_is_answered_after_three_clicks(page: Page, ground: Ground) -> None:
    """The path that docs/tutorial.md describes: login, New campaign, Start from scratch, Start campaign, verdict."""
    page.get_by_role("link", name="New campaign").click()
    page.get_by_role("link", name="Start from scratch").click()
    expect(page.get_by_label("Host", exact=True).locator("option:checked")).to_have_text(ground.host["name"])
    page.get_by_label("Add a setting").fill("work_mem")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("Enter")
    page.keyboard.type("4MB, 64MB")
    fields = {"Name": "work_mem", "Question": "Does work_mem help?", "Repetitions": "1"}
    for label, value in {**fields, "Clients": "2", "Duration (s)": "5", "Scale": "1"}.items():
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Start campaign").click()
    page.wait_for_url("**/campaigns/*-*/")
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

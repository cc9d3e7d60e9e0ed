"""The page of a host: its parts as tabs that have addresses, and all of them where scripts are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from tests.e2e.axe import violations
from tests.e2e.conftest import log_in, shot

pytestmark = pytest.mark.e2e
TABS = ["overview", "hardware", "postgresql", "access", "history"]


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_each_tab_has_an_address(open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str) -> None:
    page = open_as(team["admin"], width=width, theme=theme)
    address = reverse("host_detail", args=[team["host"].name])
    page.goto(address)
    for name in TABS:
        page.locator(f"[data-panels] a[href='#{name}']").focus()
        page.keyboard.press("Enter")
        expect(page.locator(f"#{name}")).to_be_visible()
        expect(page.locator("[data-panel]:visible")).to_have_count(1)
        expect(page.locator("[data-panels] [aria-current]")).to_have_attribute("href", f"#{name}")
        assert page.url.endswith(f"{address}#{name}")
        page.wait_for_load_state("networkidle")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shot(page, f"host-{name}-{width}")
    page.go_back()
    expect(page.locator("#access")).to_be_visible()
    assert page.said == []  # type: ignore[attr-defined]


def test_a_form_leads_back_to_its_tab(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["admin"])
    page.goto(reverse("host_detail", args=[team["host"].name]) + "#access")

    page.get_by_label("Labels").fill("oltp")
    page.get_by_role("button", name="Save the labels").click()

    page.wait_for_load_state("load")
    expect(page.locator("#access")).to_be_visible()
    expect(page.locator("#overview")).not_to_be_visible()


@pytest.mark.parametrize(("width", "theme"), [(1440, "dark"), (390, "light")])
def test_the_menu_of_the_navigation_opens_with_the_keyboard(
    open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str
) -> None:
    page = open_as(team["admin"], width=width, theme=theme)
    page.goto(reverse("profile_list"))
    page.get_by_text("More", exact=True).focus()
    page.keyboard.press("Enter")
    recipes = page.get_by_role("navigation", name="Main").get_by_role("link", name="Recipes")
    expect(recipes).to_be_in_viewport(ratio=1)
    assert violations(page) == []
    shot(page, f"menu-{width}", full_page=False)

    page.keyboard.press("Escape")
    expect(recipes).not_to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{reverse('recipe_list')}")


def test_all_parts_are_there_without_scripts(browser: Browser, live_server: Any, team: dict[str, Any]) -> None:
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    log_in(context, live_server.url, team["viewer"])
    page = context.new_page()
    page.goto(reverse("host_detail", args=[team["host"].name]))

    for name in TABS:
        expect(page.locator(f"#{name}")).to_be_visible()
    context.close()

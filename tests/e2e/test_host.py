"""The page of a host: tabs with addresses, all visible without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from apps.hosts.models import RemoteServer
from apps.hosts.usage import remote_servers
from tests.e2e.axe import violations
from tests.e2e.conftest import OVERFLOW, in_each_view, log_in, shot
from tests.hostile.lies import HONEST

pytestmark = pytest.mark.e2e
TABS = ["overview", "hardware", "postgresql", "access", "history"]


@in_each_view
def test_each_tab_has_an_address(open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str) -> None:
    _remote_server(team)
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
    assert page.messages == []  # type: ignore[attr-defined]


def _remote_server(team: dict[str, Any]) -> None:
    where = {"addresses": ["db.example.com"], "user": "proving", "sslmode": "require", "password": "s3cret"}
    server = remote_servers.register(team["host"], "shop", by=team["admin"], **where)
    RemoteServer.objects.filter(pk=server.pk).update(checked=HONEST["remote"], checked_at=timezone.now())


def test_an_admin_adds_a_remote_server(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["admin"])
    page.goto(reverse("host_detail", args=[team["host"].name]) + "#postgresql")
    page.get_by_text("Add remote server").first.click()
    form = page.locator("form", has=page.get_by_role("button", name="Add remote server"))
    for label, typed in (
        ("Name", "shop"),
        ("Addresses", "db.example.com"),
        ("Role", "proving"),
        ("Password", "s3cret"),
    ):
        form.get_by_label(label, exact=True).fill(typed)
    form.get_by_label("SSL mode").select_option("require")

    assert violations(page) == []
    shot(page, "host-remote-form")
    form.get_by_role("button", name="Add remote server").click()

    expect(page.get_by_text("The remote server is saved.")).to_be_visible()
    expect(page.get_by_role("region", name="Remote servers")).to_contain_text("db.example.com:5432")
    assert page.messages == []  # type: ignore[attr-defined]


def test_a_form_leads_back_to_its_tab(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["admin"])
    page.goto(reverse("host_detail", args=[team["host"].name]) + "#access")

    page.get_by_label("Labels").fill("oltp")
    page.get_by_role("button", name="Save the labels").click()

    page.wait_for_load_state("load")
    expect(page.locator("#access")).to_be_visible()
    expect(page.locator("#overview")).not_to_be_visible()


@in_each_view
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


def test_on_a_phone_tables_scroll_sideways_instead_of_having_high_rows(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    page = open_as(team["admin"], width=390)
    page.goto(reverse("host_list"))

    highest = page.evaluate("Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))")

    assert highest <= 60  # two lines; the machine's column had seven
    assert page.evaluate(OVERFLOW) <= 0


def test_on_a_phone_the_navigation_shows_the_section_of_the_page(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    page = open_as(team["admin"], width=390)
    page.goto(reverse("timeline"))

    expect(page.locator(".top nav [aria-current]")).to_be_in_viewport(ratio=1)
    assert page.locator(".top").bounding_box()["height"] <= 90  # type: ignore[index]

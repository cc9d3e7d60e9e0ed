"""Choosing a setting in a browser, with the keyboard alone: it becomes a row of factors, or a line of a profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from tests.e2e.axe import violations
from tests.e2e.conftest import in_each_view, shot

pytestmark = pytest.mark.e2e


def test_a_setting_becomes_a_factor_with_the_keyboard_alone(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["operator"])
    page.goto(f"{reverse('campaign_new')}?scratch=1&host={team['host'].pk}")
    page.get_by_label("Add a setting").focus()
    page.keyboard.type("work_m")
    expect(page.locator("[role=option]").first).to_contain_text("64kB to 2TB; default 4MB")

    page.keyboard.press("Enter")
    expect(page.locator("[name='value']").first).to_be_focused()
    page.keyboard.type("4MB, 64MB")

    row = page.locator("#rows tr").first
    expect(row.locator("[name='path']")).to_have_value("settings.postgresql.work_mem")
    expect(row).to_contain_text("64kB to 2TB; default 4MB")
    expect(page.locator("#rows tr")).to_have_count(2)
    page.get_by_label("Add a setting").focus()
    page.keyboard.type("swappi")
    expect(page.locator("[role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#rows tr").nth(1).locator("[name='value']")).to_have_value("60")  # as the host has it
    assert page.messages == []  # type: ignore[attr-defined]


def test_the_button_and_enter_add_a_match_of_the_text_that_is_there(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    page = open_as(team["operator"])
    page.goto(f"{reverse('campaign_new')}?scratch=1&host={team['host'].pk}")
    field, paths = page.get_by_label("Add a setting"), page.locator("#rows [name='path']")
    field.fill("work_m")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(paths.first).to_have_value("settings.postgresql.work_mem")

    field.fill("swappi")
    expect(page.locator("[role=option]")).to_have_count(1)
    field.press("Escape")
    expect(page.locator("[role=option]")).not_to_be_visible()
    field.press("Enter")
    expect(paths.nth(1)).to_have_value("settings.sysctl.vm.swappiness")

    field.fill("jit_above")
    expect(page.locator("[role=option]").first).to_contain_text("jit_above_cost")
    page.route("**/parameters/?q=wal&*", lambda route: None)  # never responds
    field.fill("wal")
    field.press("Enter")
    field.press_sequentially("_level")
    expect(page.locator("[role=option]").first).to_contain_text("wal_level")
    expect(paths).to_have_count(2)
    page.route("**/parameters/?*", lambda route: route.abort())
    field.fill("fsync")
    field.press("Enter")
    expect(page.locator(".picker [role=status]")).to_have_text("The server does not answer. Try again.")
    expect(paths).to_have_count(2)


def test_what_was_typed_while_scripts_were_loading_is_searched_as_soon_as_they_run(
    open_as: Callable[..., Page], team: dict[str, Any]
) -> None:
    page, held = open_as(team["operator"]), list[Route]()
    page.route("**/settings*.js", lambda route: held.append(route))
    page.goto(f"{reverse('campaign_new')}?scratch=1&host={team['host'].pk}", wait_until="commit")
    page.get_by_label("Add a setting").fill("work_m")
    expect(page.locator("[role=option]")).to_have_count(0)

    held[0].continue_()

    expect(page.locator("[role=option]").first).to_contain_text("64kB to 2TB; default 4MB")


@in_each_view
def test_axe_finds_nothing_while_the_list_is_open(
    open_as: Callable[..., Page], team: dict[str, Any], theme: str, width: int
) -> None:
    page = open_as(team["operator"], width=width, theme=theme)
    page.goto(f"{reverse('campaign_new')}?scratch=1&host={team['host'].pk}&setting=jit")
    page.get_by_label("Add a setting").fill("wal")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("ArrowDown")

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shot(page, f"setting-picker-{width}-{theme}", full_page=False)


def test_a_setting_becomes_a_line_or_a_field_of_a_profile(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["tuner"])
    page.goto(reverse("profile_add"))
    for typed in ("max_wal", "transparent_huge_pages.enabled"):
        page.get_by_label("Add a setting").fill(typed)
        page.wait_for_selector("[role=option]")
        page.keyboard.press("Enter")

    expect(page.locator("[name='settings.postgresql']")).to_have_value("max_wal_size = 1GB")
    expect(page.locator("[name='settings.transparent_huge_pages.enabled']")).to_be_focused()
    assert page.messages == []  # type: ignore[attr-defined]


def test_the_palette_leads_anywhere_without_a_mouse(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["operator"])
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Search or go to")).to_be_visible()
    expect(page.get_by_role("combobox", name="Page, host, campaign")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).not_to_be_visible()

    page.keyboard.press("Meta+k")
    page.keyboard.type("bench-01")
    page.keyboard.press("Enter")  # at once: before the list has come
    page.wait_for_url(f"**{reverse('host_detail', args=['bench-01'])}")

    page.keyboard.press("Control+k")
    page.keyboard.type("data s")
    expect(page.locator("#palette-options li").first).to_contain_text("Data sets")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#palette [aria-selected='true']")).to_contain_text("Data sets")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{reverse('dataset_list')}")
    assert page.messages == []  # type: ignore[attr-defined]


@in_each_view
def test_axe_finds_nothing_in_the_palette(
    open_as: Callable[..., Page], team: dict[str, Any], theme: str, width: int
) -> None:
    page = open_as(team["operator"], width=width, theme=theme)
    page.goto("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("sca")
    page.wait_for_selector("#palette-options li:has-text('Search everything for “sca”')")

    assert violations(page) == []
    shot(page, f"palette-{width}-{theme}", full_page=False)

"""Scripts in the browser: colours, line numbers, errors, keys; and the same form without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import in_each_view, shot

pytestmark = pytest.mark.e2e
SCRIPT = """\
-- look-ups by primary key, and a long line that has to be wrapped where the screen is narrow: it must stay in step
\\set aid random_gaussian(1, 100000 * :scale, 10.0)
begin;
select abalance::text, 'it''s ${name}' from pgbench_accounts where aid = :aid;
end;
"""
AREA = "textarea[data-language]"


def written(team: dict[str, Any]) -> str:
    """A workload with scripts, by and for users who may run commands."""
    User.objects.update(may_run_commands=True)
    team["admin"].refresh_from_db()
    scripts = [{"name": "read", "weight": 9, "text": SCRIPT}, {"name": "one", "text": "select 1;\n"}]
    steps = single("pgbench", {"scripts": scripts, "log": "reduced", "time_s": 30})
    return workloads.save_workload("look-ups", steps, by=team["admin"]).name


def colours(page: Page, place: str) -> dict[str, list[str]]:
    """What is shown in each colour below the first element that fits."""
    spans = page.locator(place).first.locator("[class^=code-]").all()
    by_colour: dict[str, list[str]] = {}
    for span in spans:
        kind = str(span.get_attribute("class")).removeprefix("code-")
        by_colour.setdefault(kind, []).append(str(span.text_content()))
    return by_colour


@in_each_view
def test_a_script_is_edited_in_colours(
    open_as: Callable[..., Page], team: dict[str, Any], width: int, theme: str
) -> None:
    page = open_as(team["tuner"], width=width, theme=theme)
    page.goto(reverse("workload_add"))
    area = page.locator(AREA).first

    area.fill(SCRIPT)

    shown = colours(page, ".editor")
    assert shown["meta"] == ["\\set"]
    assert shown["variable"] == [":scale", ":aid"]  # and not ::text
    assert shown["string"] == ["'it''s ${name}'"]
    assert shown["keyword"] == ["begin", "select", "from", "where", "end"]
    assert shown["comment"][0].startswith("-- look-ups")
    assert page.locator(".editor").first.locator(".line").count() == 6
    back, front = (page.evaluate(f"document.querySelector('.editor > {each}').scrollHeight") for each in ("pre", AREA))
    assert abs(back - front) <= 2  # wrapped at the same letters, or the caret would stand elsewhere
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    shot(page, f"editor-{width}-{theme}")
    assert page.messages == []  # type: ignore[attr-defined]


def test_tab_indents_and_escape_lets_it_leave(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["tuner"])
    page.goto(reverse("workload_add"))
    area = page.locator(AREA).first
    area.focus()

    page.keyboard.press("Tab")
    page.keyboard.type("select 1;")
    assert area.input_value() == "  select 1;"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")

    expect(area).not_to_be_focused()
    assert area.input_value() == "  select 1;"


def test_input_is_saved_unchanged(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["tuner"])
    page.goto(reverse("workload_add") + f"?from={written(team)}")
    area = page.locator("textarea[name$='options.scripts']")

    assert area.input_value() == f"-- script: read@9\n{SCRIPT}\n-- script: one\nselect 1;\n"
    page.get_by_role("button", name="Save workload").click()

    expect(page.locator("pre.numbered")).to_have_count(2)
    expect(page.get_by_text("revision 1")).to_be_visible()  # nothing has changed, so that no revision was written


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_scripts(open_as: Callable[..., Page], team: dict[str, Any], theme: str) -> None:
    page = open_as(team["tuner"], theme=theme)
    name = written(team)

    for address in (reverse("workload_detail", args=[name]), reverse("workload_add") + f"?from={name}"):
        page.goto(address)
        shot(page, f"script-{theme}-{address.count('?')}")
        assert violations(page, *WCAG) == []


def test_errors_are_shown_at_their_lines(open_as: Callable[..., Page], team: dict[str, Any]) -> None:
    page = open_as(team["tuner"])
    page.goto(reverse("workload_add"))
    page.fill("#id_name", "look-ups")
    page.locator(AREA).first.fill("select 1;\n\\shell id\n")

    page.get_by_role("button", name="Save workload").click()

    expect(page.locator(".editor").first.locator(".line.wrong")).to_have_text("\\shell id\n")
    shot(page, "editor-wrong")

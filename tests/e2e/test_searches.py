"""The page of a search while its trials get results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from tests.rows import populate, searched
from tests.rows.factories import make_search

pytestmark = pytest.mark.e2e
DRAWN = "id => (document.getElementById(id).data || []).length > 0"


def test_a_running_search_draws_new_results_and_leaves_a_number_that_a_user_enters(
    open_as: Callable[..., Page], transactional_db: None
) -> None:
    search = make_search(by=populate.user(Role.OPERATOR, "olga"))
    searched.advance(search)
    page = open_as(search.owner)
    page.goto(reverse("searches_detail", args=[search.pk]))
    expect(page.locator("#trials-chart .plot-status")).to_have_text("No trial has a result yet.")
    page.fill("input[name=runs]", "77")

    searched.end_round(search)
    searched.advance(search)

    for chart in ("trials-chart", "parallel-chart"):
        page.wait_for_function(DRAWN, arg=chart, timeout=30_000)
    expect(page.locator("#trials [data-row]")).to_have_count(search.trials.count())
    assert page.input_value("input[name=runs]") == "77"
    assert page.messages == []  # type: ignore[attr-defined]

"""The page Account in a real browser: tokens and their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from apps.accounts.models import ApiToken, Role, Team, User
from apps.accounts.tokens.lifecycle import Restriction, issue_token
from tests.e2e.axe import WCAG, violations
from tests.e2e.conftest import OVERFLOW, in_each_view, shot
from tests.rows import populate

pytestmark = pytest.mark.e2e


@pytest.fixture
def olga(transactional_db: None) -> User:
    user = populate.user(Role.OPERATOR, "olga")
    team = Team.objects.create(name="storage")
    team.memberships.create(user=user, role=Role.TUNER)
    limits = Restriction(["campaigns"], team, ["10.2.0.0/16", "2001:db8::/32"])
    issue_token(user, "nightly CI", Role.OPERATOR, restriction=limits)
    ApiToken.objects.update(last_used_at=timezone.now(), last_used_from="2001:db8::7")
    issue_token(user, "laptop", Role.OPERATOR)
    return user


def test_a_limited_token_is_created_rotated_and_revoked(open_as: Callable[..., Page], olga: User) -> None:
    page = open_as(olga)
    page.goto(reverse("account"))

    page.fill("#id_name", "backup")
    page.get_by_label("read only", exact=True).check()
    page.fill("#id_networks", "192.0.2.7")
    page.get_by_role("button", name="Create token").click()

    first = page.locator("#secret").inner_text()
    row = page.get_by_role("row", name="backup")
    expect(row).to_contain_text("read only")
    expect(row).to_contain_text("only from 192.0.2.7/32")
    row.get_by_role("button", name="Rotate").click()
    expect(page.locator("#secret")).not_to_have_text(first)
    expect(row).to_contain_text("old value")
    page.once("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert page.messages == []  # type: ignore[attr-defined]


@in_each_view
def test_the_tokens_fit_and_are_clean(open_as: Callable[..., Page], olga: User, theme: Any, width: int) -> None:
    page = open_as(olga, width=width, theme=theme)

    page.goto(reverse("account"))

    shot(page, f"tokens-{width}-{theme}")
    assert page.evaluate(OVERFLOW) <= 0
    assert violations(page, *WCAG) == []

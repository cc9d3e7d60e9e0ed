"""The first screen of a campaign's page: verdict, best level, size with its interval, and the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.campaigns.models import Campaign
from tests.apps.results.answers.judgements.test_judgements import CROSSED, factor, measured, switch
from tests.e2e.conftest import shot
from tests.rows import populate

pytestmark = pytest.mark.e2e

A = (10120, 10080, 10240, 9990, 10170)
BETTER, WORSE = (11330, 11240, 11470, 11210, 11350), (9120, 9060, 9190, 9030, 9160)
Theme = Literal["light", "dark"]
SCREENS: list[tuple[int, int, Theme]] = [
    (1440, 900, "light"),
    (1440, 900, "dark"),
    (390, 844, "light"),
    (390, 844, "dark"),
]
# Name, values of each level, then what the card must say.
CAMPAIGNS: dict[str, tuple[dict[str, tuple[float, ...]], str, str]] = {
    "win": ({"off": A, "on": BETTER}, "Better", "Write a decision"),
    "loss": ({"off": A, "on": WORSE}, "Worse", "Write a decision"),
    "equivalent": ({"off": A, "on": (10150, 9980, 10290, 10070, 10210)}, "Equivalent", "Write a decision"),
    "inconclusive": ({"off": A, "on": (10150, 9380, 10690, 9870, 10810)}, "Inconclusive", "repetitions"),
    "preliminary": ({"off": A[:3], "on": (13150, 13060, 13390)}, "Better", "Add 2 repetitions"),
    "interaction": (CROSSED, "Better", "Add 1 repetition"),
    "half-failed": ({"off": A, "on": (11500, 11600, 11400)}, "Better", "Retry 2 failed runs"),
    "cancelled": ({"off": A, "on": BETTER}, "Better", "Write a decision"),
}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_first_screen_answers_the_question(name: str, open_as: Callable[..., Page], transactional_db: None) -> None:
    values, verdict, step = CAMPAIGNS[name]
    admin = populate.user(Role.ADMIN)
    factors = [factor("size", "8GB", "64GB"), switch()] if name == "interaction" else []
    campaign = measured(values, admin, *factors, name=f"Do huge pages help? ({name})")
    if name == "cancelled":
        Campaign.objects.filter(pk=campaign.pk).update(state=Campaign.State.CANCELLED)

    page = open_as(admin)
    for width, height, theme in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        page.goto(reverse("campaign_detail", args=[campaign.pk]))
        card = page.locator(".answer-card")

        expect(card.locator(".answer-word")).to_contain_text(verdict)
        expect(card.locator("strong")).not_to_be_empty()
        expect(card.locator(".answer-size")).to_contain_text("95 % CI")
        expect(card.locator("svg.interval")).to_be_visible()
        expect(card).to_contain_text(step)
        box = card.bounding_box()
        assert box and box["y"] + box["height"] <= height, f"{name} at {width}: the card ends at {box}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        brand, tools = (page.locator(each).bounding_box() for each in (".brand", ".tools"))
        assert brand and tools and tools["y"] < brand["y"] + brand["height"], f"the head takes two lines at {width}"
        shot(page, f"answer-{name}-{width}-{theme}", full_page=False)

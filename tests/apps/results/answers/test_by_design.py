"""Charts and key figures of a campaign's page, by its design."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.results.answers.key_figures import key_figures
from apps.results.explore.by_design import charts_of
from tests.apps.results.answers.judgements.test_judgements import CROSSED, factor, measured, switch

SIZES = factor("shared_buffers", "1GB", "2GB", "4GB", "8GB")


@pytest.fixture
def crossed(admin: User) -> Campaign:
    return measured(CROSSED, admin, factor("size", "8GB", "64GB"), switch())


@pytest.mark.parametrize(
    ("factors", "keys"),
    [
        ([factor("fsync_method", "fdatasync", "open_sync")], ["levels", "differences", "time"]),
        ([SIZES], ["curve", "levels", "differences", "time"]),
        ([switch(), SIZES], ["interaction", "heat", "levels", "differences", "time"]),
        ([factor("one", "only")], ["levels", "time"]),
    ],
)
def test_the_design_chooses_the_charts(factors: list[dict[str, Any]], keys: list[str]) -> None:
    assert [chart.key for chart in charts_of(factors)] == keys


def test_a_numeric_factor_is_the_axis_of_an_interaction_and_a_third_one_makes_facets() -> None:
    assert charts_of([switch(), SIZES])[0].view == {
        "x": "shared_buffers",
        "colour": "huge pages",
        "facet": "",
        "shape": "lines",
    }
    assert charts_of([switch(), SIZES, factor("disk", "a", "b")])[0].view["facet"] == "disk"


def test_the_chart_of_each_tab_can_be_drawn_and_an_unknown_one_is_the_first(
    client: Client, admin: User, crossed: Campaign
) -> None:
    client.force_login(admin)
    url = reverse("campaign_detail", args=[crossed.pk])

    for chart in charts_of(crossed.factors):
        page = client.get(url, {"chart": chart.key})
        drawn = client.get(page.context["chart_figure"], {"width": 900}).json()
        assert drawn["data"], chart.key
    assert client.get(url, {"chart": "pie"}).context["shown_chart"].key == "interaction"


def test_key_figures_are_the_means_of_the_level_in_the_answer(client: Client, admin: User, crossed: Campaign) -> None:
    client.force_login(admin)

    page = client.get(reverse("campaign_detail", args=[crossed.pk])).content.decode()

    tps, latency = key_figures(crossed, "64GB, on")[:2]
    assert (tps.title, tps.value, latency.title, latency.unit) == ("TPS", 10430.0, "mean latency", "ms")
    assert 'aria-label="Key figures of size=64GB, huge pages=on"' in page
    assert re.search(r"<dt>TPS\s+\(size=64GB, huge pages=on\)</dt>", page)

"""A verdict of Compare that rests on a twin shows how much that twin resembles production."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Artefact, Campaign
from apps.campaigns.twins import services as twins
from apps.results.answers.comparison.compare import compare
from apps.results.runs import counters
from tests.rows import split
from tests.rows.factories import browser, make_twin

pytestmark = pytest.mark.django_db

SAME = {"8GB, off": 3.01, "8GB, on": 3.01}  # production has 3.01 blocks per call


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return split.finished(admin, split.host())


def run_twin(campaign: Campaign, blocks_by_label: dict[str, float]) -> None:
    """Let the campaign run a twin that covers 90 % of production's time, with these blocks per call."""
    twin = make_twin()
    Campaign.objects.filter(pk=campaign.pk).update(workload=twin.workload, dataset=twin.dataset)
    for run in (each for each in campaign.runs.all() if each.label in blocks_by_label):
        counts = {"calls": 600, "rows": 600, "shared_blks_hit": 600 * blocks_by_label[run.label], "shared_blks_read": 0}
        statements = [{"query": "select /* s01 */ id from t", **counts}]
        content = json.dumps({"seconds": 60.0, "views": {}, "tables": [], "statements": statements}).encode()
        Artefact.objects.create(run=run, path=counters.path_of(twins.STEP), size=1, sha256="", content=content)


def both(campaign: Campaign) -> list[str]:
    return [f"level:{campaign.pk}:{label}" for label in SAME]


def test_the_page_has_a_badge_with_the_fidelity_beside_the_verdict(
    client: Client, campaign: Campaign, viewer: User
) -> None:
    run_twin(campaign, SAME)
    client.force_login(viewer)

    page = client.get(reverse("compare"), {"of": both(campaign)}).content.decode()

    answer = page[page.index('class="answer"') : page.index('aria-label="Sides"')]
    assert "is better than" in answer and "<li>twin, fidelity 90 %</li>" in answer


def test_the_lower_fidelity_of_the_two_sides_counts(campaign: Campaign) -> None:
    run_twin(campaign, SAME | {"8GB, on": 30.1})

    comparison = compare(both(campaign))

    ((_, badge),) = comparison.badged_comparisons
    assert badge == "twin, fidelity 63 %"


def test_a_low_fidelity_is_a_warning(campaign: Campaign) -> None:
    run_twin(campaign, SAME | {"8GB, on": 30.1})

    warnings = compare(both(campaign)).warnings

    assert warnings == [
        "The load is a twin of the database shop. Its fidelity is at least 63 % in 5 runs. Below 80 %, the effect in"
        " production may differ."
    ]


def test_a_side_whose_statements_were_not_counted_makes_the_fidelity_unknown(campaign: Campaign) -> None:
    run_twin(campaign, {"8GB, off": 3.01})

    comparison = compare(both(campaign))

    assert [badge for _, badge in comparison.badged_comparisons] == ["twin, fidelity unknown"]
    assert comparison.warnings == [
        "The load is a twin of the database shop. Its fidelity is unknown: no run counted its statements."
    ]


def test_a_comparison_without_a_twin_has_no_badge_and_no_warning(campaign: Campaign) -> None:
    comparison = compare(both(campaign))

    assert ([badge for _, badge in comparison.badged_comparisons], comparison.warnings) == ([""], [])


@pytest.mark.parametrize(
    ("blocks", "twin", "fidelity"),
    [
        (SAME, "twin, fidelity 90 %", 0.9),
        ({"8GB, off": 3.01}, "twin, fidelity unknown", None),
        (None, "", None),
    ],
    ids=["counted", "not counted", "no twin"],
)
def test_the_api_has_the_badge_and_the_value(
    campaign: Campaign, viewer: User, blocks: dict[str, float] | None, twin: str, fidelity: float | None
) -> None:
    if blocks is not None:
        run_twin(campaign, blocks)

    answer: dict[str, Any] = browser(viewer).get("/api/v1/compare/", {"of": both(campaign)}).json()

    (one,) = answer["comparisons"]
    assert one["twin"] == twin
    assert one["fidelity"] == (fidelity if fidelity is None else pytest.approx(fidelity))

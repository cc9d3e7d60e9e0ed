"""What an interval of a mean includes, and the margin of a figure: the same wherever they are shown."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.results import charts
from apps.results.answers.comparison.compare import compare
from apps.results.answers.judgements import judgements
from apps.results.answers.margins import margin_of
from apps.results.explore import explorer
from apps.results.models import Measurement
from apps.results.queries import campaign_table
from apps.results.report import content
from tests.apps.results.answers.judgements.test_judgements import A, C, measured, of
from tests.rows.factories import browser

pytestmark = pytest.mark.django_db

WITHIN = "95 % CI within blocks"
# Shares of 1: a difference of 4 % within 5 %, and beyond 2 %.
P99 = {"A": (1.000, 1.002, 0.999, 1.001, 0.998), "C": (1.040, 1.041, 1.039, 1.042, 1.038)}


@pytest.fixture
def campaign(admin: User) -> Campaign:
    made = measured({"A": A, "C": C}, admin)
    for run in made.runs.all():
        Measurement.objects.filter(run=run, name="latency_p99").delete()
        value = 20 * P99[run.label][run.block]
        Measurement.objects.create(run=run, step="measure", name="latency_p99", value=value, unit="ms", better="lower")
    return made


def sides(campaign: Campaign) -> list[str]:
    return [f"level:{campaign.pk}:A", f"level:{campaign.pk}:C"]


def test_intervals_of_means_within_blocks_are_called_that(client: Client, admin: User, campaign: Campaign) -> None:
    client.force_login(admin)
    api = browser(admin)

    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    compared = client.get(reverse("compare"), {"of": sides(campaign)}).content.decode()
    explored = explorer.explore(campaign, explorer.read(campaign, {}))

    assert WITHIN in page and WITHIN in compared
    assert api.get(f"/api/v1/campaigns/{campaign.pk}/results/").json()["within_blocks"] is True
    assert api.get("/api/v1/compare/", {"of": sides(campaign)}).json()["within_blocks"] is True
    assert explored.ci_of_mean == WITHIN
    assert content.WITHIN_BLOCKS in content.report_of(campaign).method
    drawn = charts.level_chart(campaign_table(campaign), charts.LIGHT)["data"]
    assert f"geometric mean, {WITHIN}" in [trace["name"] for trace in drawn]


def test_intervals_of_means_with_gaps_in_blocks_are_not(admin: User) -> None:
    made = measured({"A": A, "C": C[:4]}, admin)

    assert campaign_table(made).ci_of_mean == "95 % CI"
    assert content.WITHIN_BLOCKS not in content.report_of(made).method


def test_p99_has_the_same_margin_in_findings_and_in_compare(client: Client, admin: User, campaign: Campaign) -> None:
    client.force_login(admin)
    (finding,) = of("latency", judgements(campaign))
    comparison = compare(sides(campaign), figure="measure.latency_p99")

    page = client.get(reverse("compare"), {"of": sides(campaign), "figure": "measure.latency_p99"}).content.decode()

    assert finding.figures["delta"] == comparison.delta == 0.05
    assert finding.figures["verdict"] == comparison.comparisons[0].verdict == "equivalent"
    assert 'value="" placeholder="5"' in page  # another figure has its own margin again


def test_a_margin_that_was_asked_for_is_used(client: Client, admin: User, campaign: Campaign) -> None:
    client.force_login(admin)
    asked = {"of": sides(campaign), "figure": "measure.latency_p99", "delta": "2"}

    page = client.get(reverse("compare"), asked).content.decode()

    assert compare(sides(campaign), figure="measure.latency_p99", delta=0.02).comparisons[0].verdict == "worse"
    assert 'value="2" placeholder="2"' in page


def test_the_margin_of_a_campaign_holds_for_its_own_metric(campaign: Campaign) -> None:
    assert margin_of("latency_p99", campaign) == 0.05
    assert margin_of("tps", campaign) == margin_of("latency_p99.9", campaign) == 0.02
    campaign.metric = "latency_p99"
    assert margin_of("latency_p99", campaign) == 0.02

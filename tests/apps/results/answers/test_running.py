"""A campaign that is read before its planned end: every page and answer has the wider interval, and is preliminary."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

import stats
from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.decisions.validity import newer_results
from apps.results.answers.answer_card import WIDER, answer_card
from apps.results.answers.comparison.compare import compare
from apps.results.answers.interim_analyses import NOT_ENDED, RUNNING
from apps.results.answers.judgements import judgements
from apps.results.answers.level_rows import Comparing
from apps.results.api.views import HostAnswerSerializer
from apps.results.explore import explorer
from apps.results.queries import campaign_table
from apps.results.report import content
from apps.results.store.campaign_cache import CampaignCache
from tests.apps.results.answers.judgements.test_judgements import CROSSED, A, factor, measured, of
from tests.rows.factories import browser

pytestmark = pytest.mark.django_db

# Better without an adjustment, +2.7 %; the 95 % CI of a planned end excludes 0, that of a running campaign does not.
B = (10390, 10330, 10480, 10360, 10400)


@pytest.fixture
def campaign(admin: User) -> Campaign:
    made = measured({"A": A, "B": B}, admin)
    Campaign.objects.filter(pk=made.pk).update(state=Campaign.State.RUNNING, ended_at=None)
    return Campaign.objects.select_related("workload").get(pk=made.pk)


def ended(campaign: Campaign) -> Campaign:
    campaign.state = Campaign.State.FINISHED
    return campaign


@pytest.mark.parametrize("state", [Campaign.State.RUNNING, Campaign.State.PAUSED])
def test_the_interval_is_wider_until_the_campaign_ends(campaign: Campaign, state: str) -> None:
    campaign.state = state
    running = campaign_table(campaign)
    planned = campaign_table(ended(campaign))

    live, final = running.levels[1], planned.levels[1]
    assert (running.unplanned_analysis, planned.unplanned_analysis) == ("read while it runs", "")
    assert (live.relative_low or 0) < (final.relative_low or 0)
    assert live.preliminary and not final.preliminary
    assert live.sentence.startswith("Preliminary: ")
    assert live.runs_needed == final.runs_needed


def test_too_few_runs_for_any_reading_give_no_verdict(admin: User) -> None:
    made = measured({"A": A[:3], "B": B[:3]}, admin)
    made.state = Campaign.State.RUNNING

    level = campaign_table(made).levels[1]

    assert (level.verdict, level.relative_low) == ("points_only", None)
    assert level.sentence.endswith("too few runs for a verdict while the campaign runs (3).")


def test_the_card_is_preliminary_and_says_why_its_interval_is_wide(campaign: Campaign) -> None:
    card = answer_card(campaign_table(campaign), ended=False, planned=9)

    assert card.badges[0] == "preliminary" and card.badges[-1] == "not ended"
    assert "unplanned analysis" not in card.badges
    assert card.step == "wait" and card.note == WIDER


def test_page_api_compare_and_report_have_the_same_interval(client: Client, admin: User, campaign: Campaign) -> None:
    client.force_login(admin)
    level = campaign_table(campaign).levels[1]
    bounds = [pytest.approx(level.relative_low), pytest.approx(level.relative_high)]

    compared = (
        browser(admin).get("/api/v1/compare/", {"of": [f"level:{campaign.pk}:A", f"level:{campaign.pk}:B"]}).json()
    )
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    results = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/results/").json()

    (one,) = compared["comparisons"]
    assert [one["relative_low"], one["relative_high"]] == bounds
    assert one["preliminary"] and one["verdict"] == level.verdict
    assert NOT_ENDED in compared["warnings"]
    assert [results["levels"][1]["relative_low"], results["levels"][1]["relative_high"]] == bounds
    assert WIDER in page and NOT_ENDED in page
    assert content.verdict_text(content.report_of(campaign).table.levels[1]).endswith("(preliminary)")


def test_the_verdict_of_each_host_is_preliminary() -> None:
    metric = stats.Metric("tps", "tps", "higher")
    rows = [
        stats.Observation(level, block, value * (1 + block / 1000), block)
        for level, value in (("A", 1000.0), ("B", 1201.0))
        for block in range(6)
    ]

    for why, preliminary in ((RUNNING, True), ("", False)):
        host = Comparing("A", metric, 0.02, why, identical_hosts=False).on_host(1, "rack-1", rows)
        assert HostAnswerSerializer(host).data["levels"][1]["preliminary"] is preliminary


def test_the_explorer_draws_the_interval_of_the_table(campaign: Campaign) -> None:
    level = campaign_table(campaign).levels[1]
    view = explorer.read(campaign, {"scale": "relative"})

    other = next(group for group in explorer.explore(campaign, view).groups if group.x == "B")

    assert (other.low, other.high) == (pytest.approx(level.relative_low), pytest.approx(level.relative_high))


def test_a_side_of_a_running_campaign_widens_a_comparison_of_campaigns(admin: User, campaign: Campaign) -> None:
    other = measured({"A": A, "B": B}, admin, host=campaign.host, workload=campaign.workload)
    sides = [f"level:{campaign.pk}:A", f"level:{other.pk}:B"]

    live = compare(sides)
    Campaign.objects.filter(pk=campaign.pk).update(state=Campaign.State.FINISHED)
    final = compare(sides)

    # Without a history of the host, nothing is adjusted.
    assert f"{campaign} has not ended, so the comparison is preliminary." in live.warnings
    assert not any("not ended" in warning for warning in final.warnings)
    assert live.comparisons[0].preliminary and live.comparisons[0].verdict == "undetectable"


def test_a_finding_says_that_results_are_preliminary(campaign: Campaign) -> None:
    assert [each.sentence for each in of("running", judgements(campaign))] == [NOT_ENDED]
    assert not of("running", judgements(ended(campaign)))


def test_an_interaction_is_tested_when_the_campaign_has_ended(admin: User) -> None:
    made = measured(CROSSED, admin, factor("shared_buffers", "8GB", "64GB"), factor("huge pages", "off", "on"))
    made.state = Campaign.State.RUNNING

    found = judgements(made)

    assert [each.sentence for each in of("interaction", found)] == [
        "Interactions of shared_buffers and huge pages are tested when the campaign has ended."
    ]
    assert all(each.sentence.count("Preliminary") for each in of("main effect", found))


def test_a_decision_on_a_running_campaign_is_cautioned(client: Client, tuner: User, campaign: Campaign) -> None:
    client.force_login(tuner)

    page = client.get(reverse("decision_new"), {"campaign": campaign.pk}).content.decode()

    assert "The result is preliminary: the campaign had not ended." in page
    assert newer_results.caution([("better", False)], "extended after its first results") == ""


def test_the_cached_answer_of_a_running_campaign_is_not_that_of_its_end(campaign: Campaign) -> None:
    live = CampaignCache(campaign).table()
    Campaign.objects.filter(pk=campaign.pk).update(state=Campaign.State.FINISHED)
    final = CampaignCache(Campaign.objects.get(pk=campaign.pk)).table()

    assert live.levels[1].preliminary and not final.levels[1].preliminary

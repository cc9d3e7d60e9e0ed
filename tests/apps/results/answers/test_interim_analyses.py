"""Interim analyses after whole blocks: the alpha that each spends, its result, and its effect on the campaign."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from scipy import stats as distributions

import stats
from apps.accounts.models import User
from apps.campaigns import lifecycle
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution import campaign_end, halts, queue
from apps.campaigns.models import Campaign, Run
from apps.results import queries
from apps.results.answers import interim_analyses
from apps.results.store import ingest
from common.errors import PlanError
from stats.stopping import sequential
from tests.rows.factories import browser, end_run, make_campaign

ONE, TWO = {"server cpus": "1 cpu"}, {"server cpus": "2 cpus"}
WIDTH: dict[str, Any] = {"until": "width", "between": [ONE, TWO], "width": 0.12, "least": 3}
TPS = stats.Metric("tps", "1/s", "higher")


def bounds(kind: str, count: int) -> list[float]:
    """|z| of interim analyses at equal distances, with enough blocks for t to equal z."""
    blocks = [5000 * place for place in range(1, count + 1)]
    alphas = [sequential.spent(kind, 0.05, place / count) for place in range(1, count + 1)]
    ps = [sequential.nominal(blocks[:place], alphas[:place]) for place in range(1, count + 1)]
    return [float(distributions.norm.isf(p / 2)) for p in ps]


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        ("obrien_fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_the_bounds_are_those_that_are_published(kind: str, published: list[float]) -> None:
    assert bounds(kind, 5) == pytest.approx(published, abs=0.03)


def test_two_analyses_of_equal_p_are_those_of_pocock() -> None:
    assert sequential.nominal((5000, 10000), (0.0294, 0.05)) == pytest.approx(0.0294, abs=1e-3)


def test_the_only_analysis_spends_all_alpha() -> None:
    assert sequential.nominal((8,), (0.05,)) == pytest.approx(0.05, abs=1e-3)
    assert [sequential.spent(kind, 0.05, 1) for kind in stats.SPENDING] == pytest.approx([0.05, 0.05])


def test_nothing_to_spend_makes_nothing_significant() -> None:
    assert sequential.nominal((5, 6), (0.05, 0.05)) == 0


def rows(ratio: float, blocks: int, spread: float = 0.01) -> list[stats.Observation]:
    """b is `ratio` times a; in turn a little more and a little less."""
    observations = []
    for block in range(blocks):
        wave = 1 + spread * (-1) ** block
        observations += [
            stats.Observation("a", block, 1000.0, 2 * block),
            stats.Observation("b", block, 1000.0 * ratio * wave, 2 * block + 1),
        ]
    return observations


def analysis_of(
    observed: list[stats.Observation], before: list[stats.Spent], planned: int = 10
) -> stats.InterimAnalysis:
    analysis = stats.interim_analysis(
        observed, ("a", "b"), TPS, 0.02, spending="pocock", planned=planned, before=before
    )
    assert analysis is not None
    return analysis


def test_an_interval_is_adjusted_for_its_interim_analysis() -> None:
    plain = stats.compare_levels(rows(1.05, 6), "a", "b", TPS, 0.02)
    first = analysis_of(rows(1.05, 6), [])

    assert plain.interval and first.comparison and first.comparison.interval
    assert first.comparison.interval[0] < plain.interval[0] and first.comparison.interval[1] > plain.interval[1]
    half = math.log1p(first.comparison.interval[1] / 100) - math.log1p(first.comparison.ratio_percent / 100)
    plain_half = math.log1p(plain.interval[1] / 100) - math.log1p(plain.ratio_percent / 100)
    t = distributions.t.isf([first.nominal_p / 2, 0.025], 5)
    assert half / plain_half == pytest.approx(t[0] / t[1])


def test_no_analysis_without_more_blocks_than_the_one_before() -> None:
    first = analysis_of(rows(1.05, 6), [])

    again = stats.interim_analysis(
        rows(1.05, 6), ("a", "b"), TPS, 0.02, spending="pocock", planned=10, before=[first.spent]
    )

    assert again is None


def test_spent_alpha_remains_spent_when_more_blocks_are_planned() -> None:
    before = analysis_of(rows(1.05, 6), [], planned=6)

    after = analysis_of(rows(1.05, 7), [before.spent], planned=60)

    assert (before.spent.alpha, after.spent.alpha) == (pytest.approx(0.05), pytest.approx(0.05))
    assert after.nominal_p == 0 and after.comparison is None


def test_an_analysis_may_be_too_early_for_a_verdict() -> None:
    analysis = stats.interim_analysis(
        rows(1.05, 3), ("a", "b"), TPS, 0.02, spending="obrien_fleming", planned=100, before=[]
    )

    assert analysis and analysis.comparison is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"until": "bored"}, "stop.until"),
        ({"width": 0}, "stop.width"),
        ({"until": "verdict"}, "stop.width"),
        ({"least": 2}, "stop.least"),
        ({"least": 11}, "stop.least"),
        ({"spending": "all"}, "stop.spending"),
        ({"between": [ONE, ONE]}, "stop.between"),
        ({"between": [ONE, {"server cpus": "9 cpus"}]}, "stop.between.1"),
        ({"narrow": 1}, "stop.narrow"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_wrong_part(admin: User, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        make_campaign(by=admin, repetitions=10, stop=WIDTH | changes)

    assert refused.value.subject == field


def started(admin: User, **stop: Any) -> Campaign:
    return make_campaign(Campaign.State.RUNNING, by=admin, repetitions=10, stop=WIDTH | stop)


def run_block(campaign: Campaign, block: int, *, ratio: float = 1.5, outcome: str = Run.Outcome.OK) -> None:
    """End the runs of a block, process them and analyse them. TPS rise and fall from block to block."""
    wave = 1 + 0.01 * (-1) ** block
    for run in campaign.runs.filter(block=block, state=Run.State.QUEUED):
        tps = 1000.0 if run.label == "1 cpu" else 1000.0 * ratio * wave
        end_run(run, outcome, tps=tps)
        campaign_end.close_campaign(campaign.pk)
        queue.arm_host(run.host_id)
    interim_analyses.analyse(campaign)
    campaign.refresh_from_db()


def armed_block(campaign: Campaign) -> int | None:
    return campaign.runs.filter(next_tick_at__isnull=False).values_list("block", flat=True).first()


def test_the_next_block_waits_for_the_interim_analysis(admin: User) -> None:
    campaign = started(admin, width=0.001)
    for block in range(2):
        run_block(campaign, block)
    for run in campaign.runs.filter(block=2):
        end_run(run)
        queue.arm_host(run.host_id)
    queue.arm_idle_hosts()
    assert armed_block(campaign) is None

    assert interim_analyses.analyse(campaign) is not None

    assert armed_block(campaign) == 3


def test_it_stops_when_the_interval_is_narrow_enough_and_deletes_runs_that_did_not_begin(admin: User) -> None:
    campaign = started(admin)
    for block in range(4):
        run_block(campaign, block)

    assert campaign.state == Campaign.State.FINISHED and campaign.ended_at is not None
    assert campaign.state_reason.startswith(
        "interim analysis 2 of 8, after 4 blocks: the CI is narrow enough (2 cpus against 1 cpu, "
    )
    assert campaign.state_reason.endswith("; 12 planned runs did not start")
    assert set(campaign.runs.values_list("outcome", flat=True)) == {"ok"}
    assert [analysis.met for analysis in campaign.interim_analyses.all()] == [False, True]


def test_it_stops_when_the_verdict_is_certain(admin: User) -> None:
    campaign = make_campaign(
        Campaign.State.RUNNING, by=admin, repetitions=10, stop={"until": "verdict", "between": [ONE, TWO], "least": 3}
    )
    block = 0
    while campaign.state == Campaign.State.RUNNING:
        run_block(campaign, block)
        block += 1

    analysis = campaign.interim_analyses.last()
    assert analysis and 3 < block < 10
    assert (analysis.comparison["verdict"], analysis.alpha < 0.05) == ("better", True)


@pytest.mark.thorough
def test_it_runs_to_its_last_repetition_when_the_rule_is_never_met(admin: User) -> None:
    campaign = started(admin, width=0.0001)
    for block in range(10):
        run_block(campaign, block)

    last = campaign.interim_analyses.last()
    assert (campaign.state, campaign.state_reason) == (Campaign.State.FINISHED, "")
    assert last and (last.number, last.of, last.alpha) == (8, 8, pytest.approx(0.05))


def test_a_failed_run_leaves_its_block_out_and_the_next_one_begins(admin: User) -> None:
    campaign = started(admin, width=0.001)
    run_block(campaign, 0)
    run_block(campaign, 1)
    run_block(campaign, 2, outcome=Run.Outcome.FAILED)
    assert not campaign.interim_analyses.exists()

    run_block(campaign, 3)

    assert campaign.interim_analyses.get().blocks == 3
    assert armed_block(campaign) == 4


def test_an_interim_analysis_leaves_out_the_block_of_a_retried_run(admin: User) -> None:
    """The retry ran later than the other run of its block, so that the two do not make a pair."""
    campaign = started(admin, width=0.001)
    run_block(campaign, 0)
    run_block(campaign, 1)
    first, second = campaign.runs.filter(block=2).order_by("position")
    end_run(first, Run.Outcome.FAILED)
    end_run(second)
    lifecycle.retry_failed(campaign, by=admin)
    end_run(campaign.runs.get(retry_of=first), tps=9000.0)

    run_block(campaign, 3)

    analysis = campaign.interim_analyses.get()
    assert analysis.blocks == 3
    assert analysis.comparison["ratio_percent"] == pytest.approx(50, abs=1)


def test_the_interim_analysis_of_a_running_campaign_is_preliminary(admin: User) -> None:
    campaign = started(admin, width=0.001)
    for block in range(6):
        run_block(campaign, block)
    analysis = campaign.interim_analyses.last()
    assert analysis and analysis.comparison["preliminary"] is False

    running = queries.campaign_table(campaign)
    campaign.state = Campaign.State.FINISHED
    final = queries.campaign_table(campaign)

    assert running.levels[1].preliminary and not final.levels[1].preliminary
    assert running.sentence == running.levels[1].sentence == f"Preliminary: {final.sentence}"


def test_an_analysis_is_made_once_though_its_message_comes_twice(admin: User) -> None:
    campaign = started(admin, width=0.001)
    for block in range(3):
        run_block(campaign, block)

    interim_analyses.analyse(campaign)
    interim_analyses.run_due_analyses()

    assert campaign.interim_analyses.count() == 1


def test_an_analysis_whose_message_was_lost_is_made_by_the_beat(admin: User) -> None:
    campaign = started(admin, width=0.001)
    for run in campaign.runs.filter(block__lt=3):
        end_run(run)

    interim_analyses.run_due_analyses()

    assert campaign.interim_analyses.count() == 1 and armed_block(campaign) == 3


def test_the_last_run_of_a_block_triggers_the_interim_analysis(admin: User) -> None:
    campaign = started(admin, width=0.001)
    for run in campaign.runs.filter(block__lt=3):
        end_run(run)
    Run.objects.filter(pk=run.pk).update(ingested_at=None, outcome=Run.Outcome.FAILED)

    assert ingest.ingest(Run.objects.get(pk=run.pk))

    campaign.refresh_from_db()
    assert campaign.open_blocks == 4


def test_a_pause_holds_though_an_analysis_opens_the_next_block(admin: User) -> None:
    campaign = started(admin, width=0.001)
    for block in range(2):
        run_block(campaign, block)
    lifecycle.pause_campaign(campaign, by=admin)

    run_block(campaign, 2)

    assert campaign.open_blocks == 4 and armed_block(campaign) is None
    lifecycle.resume_campaign(campaign, by=admin)
    assert armed_block(campaign) == 3


def test_the_table_the_page_and_the_evidence_have_the_adjusted_interval(admin: User, client: Client) -> None:
    campaign = started(admin)
    for block in range(4):
        run_block(campaign, block)
    analysis = campaign.interim_analyses.last()
    assert analysis
    client.force_login(admin)

    row = queries.campaign_table(campaign).levels[1]
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    results = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/results/").json()

    assert (row.relative_low, row.relative_high) == (analysis.comparison["low"], analysis.comparison["high"])
    assert results["look"]["found"] == results["interim_analysis"]["comparison"]
    assert (results["interim_analysis"]["number"], results["interim_analysis"]["of"]) == (2, 8)
    assert (
        "Interim analysis 2 of 8, alpha spent 0.026 of 0.05" in page and "Ended early: interim analysis 2 of 8" in page
    )
    assert queries.evidence(campaign)["table"]["interim_analysis"]["comparison"] == analysis.comparison


def test_a_campaign_that_a_rule_has_stopped_is_extended_without_the_rule(admin: User) -> None:
    campaign = started(admin)
    for block in range(4):
        run_block(campaign, block)

    lifecycle.extend_campaign(campaign, by=admin, repetitions=3)
    for block in (4, 5, 6):
        run_block(campaign, block)

    assert (campaign.repetitions, campaign.state, campaign.runs.count()) == (7, Campaign.State.FINISHED, 14)
    alphas = [analysis.alpha for analysis in campaign.interim_analyses.all()]
    assert alphas == sorted(alphas) and len(alphas) == 5


def test_stopping_a_campaign_cancels_a_claimed_run_and_does_not_delete_it(admin: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING, by=admin)
    held = campaign.runs.get(next_tick_at__isnull=False)
    assert held.claim_tick(60)

    halts.stop_campaign(campaign, "enough")

    held.refresh_from_db()
    assert held.outcome == Run.Outcome.CANCELLED
    assert campaign.runs.count() == 1
    previews.facts_of(campaign.host)

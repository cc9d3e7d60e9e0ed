"""Findings of a campaign: their sentences and conditions, the same on the page and in the API."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import User
from apps.campaigns.models import Campaign, DataUse, Run
from apps.campaigns.twins import services as twins
from apps.results.answers.judgements import judgements
from apps.results.answers.sentences import Judgement
from apps.results.models import Measurement, StepStability
from apps.results.queries import campaign_table
from tests.rows.factories import browser, make_campaign, make_workload

pytestmark = pytest.mark.django_db

CAPTURE = Path(__file__).parents[4] / "contract" / "captures" / "shop-18.jsonl"

SIZES = {"8GB": (9800, 9750, 9900, 9700, 9850), "16GB": (10060, 10080, 10150, 9960, 10190)}
SIZES |= {"32GB": (10310, 10130, 10370, 10150, 10200), "64GB": (10140, 10220, 10270, 10020, 10240)}
A, C = (10120, 10080, 10240, 9990, 10170), (10150, 9980, 10290, 10070, 10210)
CROSSED = {
    "8GB, off": (9800, 9750, 9900, 9700),
    "8GB, on": (9910, 9800, 10050, 9760),
    "64GB, off": (10100, 10080, 10180, 9990),
    "64GB, on": (10470, 10320, 10560, 10370),
}


def factor(name: str, *labels: str, path: str = "settings.postgresql.cluster_name") -> dict[str, Any]:
    return {"name": name, "levels": [{"label": label, "set": {path: label}} for label in labels]}


def measured(values: Mapping[str, tuple[float, ...]], by: User, *factors: dict[str, Any], **fields: Any) -> Campaign:
    """A finished campaign whose runs of each level have these values, one a block; level by level `settings` differ."""
    chosen_factors = factors or (factor("shared_buffers", *values),)
    made = make_campaign(
        Campaign.State.FINISHED,
        by=by,
        factors=list(chosen_factors),
        repetitions=max(map(len, values.values())),
        **fields,
    )
    for run in made.runs.all():
        own = values[run.label]
        if run.block < len(own):
            run.measurements.filter(name="tps").update(value=own[run.block])
        else:
            ended_badly(run)
    return made


def ended_badly(run: Run) -> None:
    run.measurements.all().delete()
    Run.objects.filter(pk=run.pk).update(outcome=Run.Outcome.FAILED)


def of(topic: str, all_judgements: list[Judgement]) -> list[Judgement]:
    return [judgement for judgement in all_judgements if judgement.topic == topic]


def test_each_level_s_comparison_is_that_of_the_table(admin: User) -> None:
    comparisons = of("comparison", judgements(measured(SIZES, admin)))

    assert [(comparison.figures["level"], comparison.tone) for comparison in comparisons] == [
        (name, "better") for name in ("16GB", "32GB", "64GB")
    ]
    assert comparisons[0].sentence == (
        "16GB is better than 8GB: tps +2.94 % (95 % CI +2.01 to +3.87 %, 5 runs of each, p < 0.001)."
    )


def test_the_best_level_is_compared_with_the_second_best(admin: User) -> None:
    (judgement,) = of("best", judgements(measured(SIZES, admin)))

    assert judgement.sentence == (
        "32GB has the best mean but is not clearly ahead: +0.53 % (95 % CI -0.47 to +1.54 %) against 64GB. "
        "Confirm it in a separate campaign: the best of 4 is overestimated."
    )


def test_several_comparisons_say_how_often_one_of_them_is_wrong(admin: User) -> None:
    (judgement,) = of("many comparisons", judgements(measured(SIZES, admin)))

    assert judgement.sentence.startswith("3 planned comparisons with 8GB: the intervals hold jointly at 95 % (Dunnett)")


# One run in four is 10 % slower; b is 3 % faster.
SLOW_RUNS = {
    "a": (10010, 9990, 9010, 10030, 9970, 10050, 8990, 9985, 10020, 9960, 9020, 10005),
    "b": (10320, 9270, 10290, 10350, 10275, 9310, 10330, 10305, 10260, 9290, 10315, 10298),
}


def test_runs_with_two_modes_are_compared_by_ranks_and_the_page_says_so(admin: User, client: Client) -> None:
    campaign = measured(SLOW_RUNS, admin)
    table, findings = campaign_table(campaign), judgements(campaign)

    assert of("modes", findings)[0].sentence == (
        "Two modes: in 6 of 24 runs, tps is about 9.9 % lower than in the others. "
        "Levels are compared by ranks, so extreme runs count little."
    )
    assert "12 runs of each, by ranks, p" in of("comparison", findings)[0].sentence
    assert "compared by Hodges-Lehmann shift by ranks, within blocks" in table.method
    assert [[mode.runs for mode in level.modes] for level in table.levels] == [[3, 9], [3, 9]]
    client.force_login(admin)
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    assert "Two modes: in 6 of 24 runs" in page and "Hodges-Lehmann shift by ranks" in page
    answer = client.get(f"/api/v1/campaigns/{campaign.pk}/results/").json()
    assert answer["modes"]["lower"] == 6 and answer["levels"][1]["modes"][0]["runs"] == 3
    assert "by ranks" in answer["levels"][1]["method"]


@pytest.mark.parametrize("order", ["as_given", "descending", "randomised"])
def test_verdicts_of_a_fixed_order_name_the_drift_that_they_do_not_include(admin: User, order: str) -> None:
    campaign = measured({"8GB": A, "16GB": C}, admin, order=order)

    (comparison,) = of("comparison", judgements(campaign))

    fixed = "Not included: drift within a block, because levels run in a fixed order."
    assert comparison.sentence.endswith(fixed) == (order != "randomised")


@pytest.mark.parametrize("target", [{"remote": "managed"}, {"data_dir": "/srv/pg"}])
def test_verdicts_of_a_fixed_order_name_the_starts_that_levels_share_if_the_server_keeps_running(
    admin: User, target: dict[str, str]
) -> None:
    campaign = measured({"8GB": A, "16GB": C}, admin, order="as_given")
    Campaign.objects.filter(pk=campaign.pk).update(target=target)
    campaign.refresh_from_db()

    (comparison,) = of("comparison", judgements(campaign))

    assert "drift within a block, and variation between starts that levels share" in comparison.sentence


def test_runs_with_one_mode_have_no_finding_about_modes(admin: User) -> None:
    assert not of("modes", judgements(measured(SIZES, admin)))


def test_other_figures_are_scanned_and_their_number_paid_for(admin: User) -> None:
    campaign = measured(SIZES, admin)
    for run in campaign.runs.all():
        slower = 1.5 if run.label == "64GB" else 1.0
        run.measurements.filter(name="latency_avg").update(value=slower * (2 + 0.01 * (run.position % 3)))

    (judgement,) = of("other figures", judgements(campaign))

    assert judgement.figures["comparisons"] == 3
    assert judgement.sentence.startswith("Other figures than tps: 1 of 3 comparisons differ: latency avg at 64GB +")


def test_a_figure_that_is_infinite_in_a_run_is_not_compared(admin: User) -> None:
    campaign = measured(SIZES, admin)
    campaign.runs.all()[0].measurements.filter(name="latency_avg").update(value=math.inf)

    assert not of("other figures", judgements(campaign))


def test_two_factors_have_an_interaction_and_main_effects(admin: User) -> None:
    campaign = measured(CROSSED, admin, factor("size", "8GB", "64GB"), switch())

    all_judgements = judgements(campaign)

    (interaction,) = of("interaction", all_judgements)
    assert interaction.tone == "warning"
    assert interaction.sentence.endswith(
        "size and huge pages interact: huge pages=on against huge pages=off is +0.94 % at size=8GB and +3.39 % at "
        "size=64GB (ratio +2.43 %, 95 % CI +1.60 to +3.27 %, p < 0.001)."
    )
    assert [each.sentence.split(":")[0] for each in of("main effect", all_judgements)] == [
        "size, averaged over huge pages",
        "huge pages, averaged over size",
    ]
    (ranked,) = of("best", all_judgements)
    assert ranked.sentence.startswith("size=64GB, huge pages=on ")
    assert ranked.figures["best"] == "64GB, on"


def switch() -> dict[str, Any]:
    return factor("huge pages", "off", "on", path="settings.postgresql.jit")


def test_one_factor_at_a_time_says_why_it_has_no_interaction(admin: User) -> None:
    values = {label: CROSSED[label] for label in ("8GB, off", "64GB, off", "8GB, on")}
    campaign = measured(values, admin, factor("size", "8GB", "64GB"), switch(), design="one_at_a_time")

    (judgement,) = of("interaction", judgements(campaign))

    assert (
        judgement.sentence == "No interaction analysis of size and huge pages: not every combination of levels was run."
    )


def test_the_noise_floor_is_computed_from_the_run_to_run_variation(admin: User) -> None:
    (judgement,) = of("noise", judgements(measured({"A": A, "C": C}, admin)))

    assert judgement.tone == "note"
    assert (
        judgement.sentence.startswith("Noise floor: ")
        and "between two identical levels of 5 runs each" in judgement.sentence
    )


def test_the_noise_floor_is_that_of_the_levels_with_an_interval(admin: User) -> None:
    (judgement,) = of("noise", judgements(measured({**SLOW_RUNS, "c": (10100,)}, admin)))

    assert "between two identical levels of 12 runs each" in judgement.sentence


def test_noise_above_the_margin_is_a_warning(admin: User) -> None:
    loud = {"A": A, "C": (10150, 9380, 10690, 9870, 10810)}

    (judgement,) = of("noise", judgements(measured(loud, admin)))

    assert judgement.tone == "warning" and judgement.sentence.endswith("effects of 2 % can hide in it.")


def test_levels_that_set_the_same_show_the_noise(admin: User) -> None:
    same = {"name": "twice", "levels": [{"label": label, "set": {}} for label in ("A", "C")]}

    (judgement,) = of("noise", judgements(measured({"A": A, "C": C}, admin, same)))

    assert judgement.sentence.startswith("A and C are identical and differ by +0.20 % (95 % CI ")
    assert "noise floor" in judgement.sentence


def test_an_inconclusive_comparison_says_how_many_hours_are_needed(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin, delta=0.002)
    campaign.runs.update(started_at="2026-01-01T00:00Z", ended_at="2026-01-01T00:06Z")

    all_judgements = judgements(campaign)

    (needed,) = of("runs needed", all_judgements)
    more = needed.figures["runs_needed"] - 5
    assert more > 0 and needed.figures["hours"] == pytest.approx(2 * more * 0.1)
    assert f"{more + 5} of each, about {2 * more * 0.1:,.1f} h more" in needed.sentence
    (sensitivity,) = of("sensitivity", all_judgements)
    assert sensitivity.tone == "warning" and "above the minimum effect of interest (0.2 %)" in sensitivity.sentence


def test_an_inconclusive_drift_is_not_denied(admin: User) -> None:
    (judgement,) = of("drift", judgements(measured(SIZES, admin)))
    (early,) = of("drift", judgements(measured({"A": A[:1], "C": C[:1]}, admin)))

    assert judgement.tone == "unknown"
    assert judgement.sentence.startswith("Drift is inconclusive: ")
    assert early.sentence == "Not enough runs to test for drift: at least 6 are needed."


def percentiles(campaign: Campaign, factor_of: Mapping[str, float], skip: int = 0) -> None:
    for run in campaign.runs.order_by("position")[skip:]:
        value = 5.0 * factor_of[run.label] * (1 + 0.01 * run.block)
        Measurement.objects.create(run=run, step="measure", name="latency_p99", value=value, unit="ms", better="lower")


def test_p99_is_compared_with_a_margin_of_its_own(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin)
    percentiles(campaign, {"A": 1.0, "C": 1.2})

    (judgement,) = of("latency", judgements(campaign))

    assert (judgement.tone, judgement.figures["delta"]) == ("worse", 0.05)
    assert judgement.sentence.startswith("C is worse than A: p99 latency +20.0 %")


def test_p99_is_not_compared_where_a_run_lacks_it(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin)
    percentiles(campaign, {"A": 1.0, "C": 1.0}, skip=1)

    (judgement,) = of("latency", judgements(campaign))

    assert judgement.sentence.startswith(
        "p99 latency is not compared: 1 run of 10 has none, as it takes 368 transactions"
    )


def test_without_logs_of_transactions_no_percentile_is_known(admin: User) -> None:
    (judgement,) = of("latency", judgements(measured({"A": A, "C": C}, admin)))

    assert "were not logged individually" in judgement.sentence


def test_a_closed_loop_bears_its_badge(admin: User) -> None:
    (judgement,) = of("closed loop", judgements(measured({"A": A, "C": C}, admin)))

    assert judgement.sentence.startswith(
        "Closed loop: latencies exclude the time that transactions wait behind a stall"
    )


def test_an_open_loop_has_no_closed_loop_badge(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin, workload=make_workload(by=admin, rate=100))

    assert of("closed loop", judgements(campaign)) == []


def test_levels_with_a_rate_leave_the_badge_to_the_others(admin: User) -> None:
    rate = {"name": "rate", "levels": [{"label": "A", "set": {}}, {"label": "C", "set": {"workload.rate": 100}}]}

    (judgement,) = of("closed loop", judgements(measured({"A": A, "C": C}, admin, rate)))

    assert judgement.sentence.startswith("Closed loop at A: ")


def test_too_little_data_is_reported(admin: User) -> None:
    few, some = measured({"A": A[:2], "C": C[:2]}, admin), measured({"A": A[:4], "C": C[:4]}, admin)

    assert of("data", judgements(few))[0].sentence.startswith(
        "Some levels have too few runs: A has 2 and C has 2. A comparison needs 3 of each."
    )
    assert of("data", judgements(some))[0].sentence.startswith("Preliminary: a verdict needs 5 runs of each level")


def test_before_the_first_run_there_is_one_sentence(admin: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING, by=admin)

    assert [judgement.sentence for judgement in judgements(campaign)] == ["No comparison: no run has ended yet."]


def test_failed_runs_are_counted_and_where_they_are(admin: User) -> None:
    (judgement,) = of("failed", judgements(measured({"A": A, "C": C[:3]}, admin)))

    assert judgement.sentence == "2 of 10 runs failed or were cancelled, all of level C, and are excluded."


def test_runs_added_after_results_were_seen_are_reported(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin)
    campaign.extensions = [{"at": "2026-02-03T10:00", "by": "olga", "repetitions": 5, "levels": [], "seen": 6}]

    (judgement,) = of("extension", judgements(campaign))

    assert judgement.sentence.startswith("Extended on 2026-02-03 after 6 runs had results")


def test_the_intervals_of_an_extended_campaign_hold_at_any_analysis(admin: User) -> None:
    planned = measured({"A": A, "C": C}, admin)
    before = campaign_table(planned).levels[1]
    planned.extensions = [{"at": "2026-02-03T10:00", "by": "olga", "repetitions": 5, "levels": [], "seen": 6}]

    table = campaign_table(planned)

    after = table.levels[1]
    assert (before.relative_low or 0) > (after.relative_low or 0) and after.method.endswith("for unplanned analyses")
    assert table.unplanned_analysis == "extended after its first results"


def test_runs_that_never_began_did_not_fail(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin)
    campaign.state = Campaign.State.CANCELLED
    last = campaign.runs.order_by("position").last()
    campaign.runs.filter(pk=last.pk).update(outcome=Run.Outcome.CANCELLED, started_at=None)

    all_judgements = judgements(campaign)

    assert not of("failed", all_judgements)
    (cancelled,) = of("extension", all_judgements)
    assert cancelled.sentence == "Cancelled before 1 planned run began. The 95 % CIs are wider to allow for that."


def test_a_campaign_that_was_cancelled_during_its_last_runs_names_no_other_runs(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin)
    campaign.state = Campaign.State.CANCELLED

    (cancelled,) = of("extension", judgements(campaign))

    assert cancelled.sentence.startswith("Cancelled during its last runs. ")


def test_runs_with_warm_up_or_stall_findings_are_counted(admin: User) -> None:
    campaign = measured({"A": A, "C": C}, admin)
    for run in campaign.runs.all():
        StepStability.objects.create(
            run=run, step="measure", steady=run.position not in (3, 8), data={}, stalled_s=run.position == 4
        )

    all_judgements = judgements(campaign)

    assert [each.sentence for each in of("warm-up", all_judgements)] == [
        "2 of 10 runs reached no steady state: runs 4 and 9."
    ]
    assert [each.sentence for each in of("stalls", all_judgements)] == ["1 of 10 runs stalled: run 5."]


def test_page_and_api_say_the_same(client: Client, admin: User) -> None:
    client.force_login(admin)
    campaign = measured(SIZES, admin)

    rows = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/judgements/").json()
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()

    assert [row["sentence"] for row in rows] == [judgement.sentence for judgement in judgements(campaign)]
    assert "Findings" in page
    assert all(escape(row["sentence"]) in page for row in rows)


def test_a_campaign_that_only_makes_data_says_nothing() -> None:
    assert judgements(Campaign(kind=Campaign.Kind.PREPARATION, metric="")) == []


def test_the_command_line_says_the_same(admin: User, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = measured(SIZES, admin)

    call_command("judgements", str(campaign.pk))
    output = capsys.readouterr().out
    call_command("judgements", str(campaign.pk), "--json")
    as_json = json.loads(capsys.readouterr().out)

    assert all(judgement.sentence in output for judgement in judgements(campaign))
    assert [each["sentence"] for each in as_json] == [judgement.sentence for judgement in judgements(campaign)]


def test_an_unknown_campaign_is_named(admin: User) -> None:
    with pytest.raises(CommandError, match="no campaign has the id"):
        call_command("judgements", str(uuid4()))


def test_more_runs_take_no_more_queries(admin: User, django_assert_max_num_queries: Any) -> None:
    campaign = Campaign.objects.select_related("workload").get(pk=measured({"A": A * 4, "C": C * 4}, admin).pk)
    table = campaign_table(campaign)

    with django_assert_max_num_queries(6):  # data sets, p99, other figures, within, breaks, how long a run takes
        judgements(campaign, table)


def test_runs_on_different_versions_of_a_data_set_have_a_warning(admin: User) -> None:
    """A dump was replaced before the fourth run. The other definition is that of another level."""
    campaign = measured({"A": A, "C": C}, admin)
    for run in campaign.runs.all():
        definition, version = run.label, "new" if run.label == "A" and run.block > 2 else "old"
        identity = {"name": "shop", "definition": definition, "fingerprint": f"{definition} {version}"}
        DataUse.objects.create(run=run, means="pristine", reason="reads only", **identity)

    (warning,) = of("data", judgements(campaign))

    assert warning.tone == "warning" and warning.figures == {"dataset": "shop", "runs": [3, 2]}
    assert warning.sentence == (
        "The runs did not load the same data: the data set shop had 2 versions, in 3 and 2 runs. "
        "Clone the campaign, and keep the dump unchanged while it runs."
    )
    assert not of("data", judgements(measured({"A": A, "C": C}, admin)))


def test_a_verdict_on_a_twin_whose_fidelity_is_unknown_has_a_warning(admin: User) -> None:
    twin = twins.create("shop", CAPTURE.read_bytes(), by=admin)
    campaign = measured(SIZES, admin)
    Campaign.objects.filter(pk=campaign.pk).update(workload=twin.workload, dataset=twin.dataset)

    (judgement,) = of("twin", judgements(Campaign.objects.get(pk=campaign.pk)))

    assert judgement.tone == "warning"
    assert judgement.sentence == (
        "The load is a twin of the database shop. Its fidelity is unknown: no run counted its statements."
    )

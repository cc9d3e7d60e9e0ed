"""Failed transactions are an outcome: a level that fails more often is never plainly better."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import stats
from apps.accounts.models import User
from apps.campaigns.design import orders
from apps.campaigns.models import Campaign, Run
from apps.decisions.evidence import replay
from apps.results import queries
from apps.results.answers.comparison.compare import compare
from apps.results.answers.judgements import judgements
from apps.results.models import Measurement
from tests.apps.results.answers.judgements.test_judgements import A, ended_badly, measured, of

OFF, ON = (1000, 1010, 990, 1005, 995), (1200, 1210, 1190, 1205, 1195)


def with_failures(campaign: Campaign, label: str, failed: Sequence[float]) -> None:
    """Each run has 100,000 transactions that succeeded; the runs of `label` have these that failed as well."""
    for run in campaign.runs.all():
        counts = {"transactions": 100_000.0, "failed": failed[run.block] if run.label == label else 0.0}
        for name, value in counts.items():
            Measurement.objects.create(run=run, step="measure", name=name, value=value, unit="transactions", better="")


def test_a_faster_level_whose_transactions_fail_is_not_plainly_better(client: Client, admin: User) -> None:
    campaign = measured({"off": OFF, "on": ON}, admin)
    with_failures(campaign, "on", [40_000] * 5)

    table = queries.campaign_table(campaign)

    level = table.levels[1]
    assert (level.verdict, round(level.failed_percent or 0.0, 1)) == ("better_failing", 28.6)
    assert "28.6 % of the transactions" in table.sentence and "against 0 %" in table.sentence
    assert of("failures", judgements(campaign))[0].tone == "warning"
    client.force_login(admin)
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    assert "Better, but more failures" in page


def test_the_same_failures_at_both_levels_keep_the_verdict(admin: User) -> None:
    campaign = measured({"off": OFF, "on": ON}, admin)
    with_failures(campaign, "on", [0.0] * 5)

    assert queries.campaign_table(campaign).levels[1].verdict == "better"


@pytest.mark.parametrize(
    ("level", "baseline", "expected"),
    [
        ([0.4] * 3, [0.0] * 3, True),
        ([0.4, 0.5], [0.0, 0.0], False),  # too few runs
        ([0.0005] * 5, [0.0] * 5, False),  # too small to matter
        ([0.02, 0.0, 0.03, 0.0, 0.01], [0.01, 0.02, 0.0, 0.03, 0.0], False),
        ([], [0.0], False),
    ],
)
def test_shares_of_failed_transactions_are_compared_run_by_run(
    level: list[float], baseline: list[float], expected: bool
) -> None:
    assert stats.fails_more(level, baseline) is expected


def test_fewer_than_one_campaign_in_sixteen_has_a_false_alarm_of_failures() -> None:
    shares = np.random.default_rng(1).beta(2, 98, size=(1000, 2, 5))

    alarms = np.mean([stats.fails_more(list(level), list(baseline)) for level, baseline in shares])

    assert alarms <= 0.06


def test_a_run_without_any_throughput_breaks_no_page(client: Client, admin: User) -> None:
    campaign = measured({"off": OFF, "on": (0.0, *ON[1:])}, admin)
    client.force_login(admin)

    page = client.get(reverse("campaign_detail", args=[campaign.pk]))

    assert page.status_code == 200
    assert "1 run with tps 0 left out" in page.content.decode()
    assert of("zeros", judgements(campaign))[0].figures == {"zeros": {"on": 1}}


def test_a_campaign_of_zeros_says_why_there_is_no_result(client: Client, admin: User) -> None:
    campaign = measured({"off": (0.0,) * 5, "on": (0.0,) * 5}, admin)
    client.force_login(admin)

    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()

    assert "The figure is 0 in every run" in page


def test_a_faster_level_whose_runs_fail_is_not_plainly_better(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON}, admin)

    table = queries.campaign_table(campaign)

    level = table.levels[1]
    assert level.verdict == "better_failing"
    assert level.failures == "5 of 10 planned runs of on failed at first, against 0 of 10 at off."
    assert level.sentence.startswith("on is better than off, but more of its runs failed: tps +20")
    assert of("failures", judgements(campaign))[0].sentence == level.failures
    assert all(row.same for row in replay.replay(queries.evidence(campaign)))


def test_failures_change_no_verdict_while_the_campaign_runs(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON}, admin)
    with_failures(campaign, "on", [40_000] * 5 + [0] * 5)
    Campaign.objects.filter(pk=campaign.pk).update(state=Campaign.State.RUNNING)
    campaign.refresh_from_db()

    level = queries.campaign_table(campaign).levels[1]
    warnings = compare([f"level:{campaign.pk}:{label}" for label in ("off", "on")]).warnings

    assert level.verdict == "better"
    assert level.failures in warnings
    assert level.failures.startswith(
        "Preliminary: 28.6 % of the transactions of on failed, against 0 % at off. Its tps"
    )
    assert level.failures.endswith(". 5 of 10 planned runs of on failed at first, against 0 of 10 at off.")


def retry(campaign: Campaign, label: str, outcome: str, tps: float = 0.0) -> None:
    """Retry each failed run of the level that was not retried yet; all retries have this outcome."""
    first = campaign.runs.count()
    failed = [run for run in campaign.runs.filter(outcome=Run.Outcome.FAILED, retries=None) if run.label == label]
    for place, run in enumerate(failed):
        earlier, run.pk = run.pk, None
        run.id, run.retry_of_id, run.position, run.outcome = uuid4(), earlier, first + place, outcome
        run.save(force_insert=True)
        if outcome == Run.Outcome.OK:
            Measurement.objects.create(run=run, step="measure", name="tps", value=tps, unit="tps", better="higher")


def test_retries_that_fail_again_do_not_count_as_further_failures(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": (*ON, *ON[:2])}, admin)
    for _ in range(3):
        retry(campaign, "on", Run.Outcome.FAILED)

    level = queries.campaign_table(campaign).levels[1]

    assert (level.verdict, level.failures) == ("better", "")  # 3 of 10 against 0 of 10


def test_retries_that_succeed_do_not_undo_failures(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON}, admin)
    retry(campaign, "on", Run.Outcome.OK, tps=1200.0)

    level = queries.campaign_table(campaign).levels[1]
    (warning,) = compare([f"level:{campaign.pk}:{label}" for label in ("off", "on")]).warnings

    assert level.verdict == "better_failing"
    assert level.failures == warning == "5 of 10 planned runs of on failed at first, against 0 of 10 at off."


def test_a_preliminary_verdict_with_failed_runs_stays_preliminary(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON[:4]}, admin)

    level = queries.campaign_table(campaign).levels[1]

    assert level.preliminary and level.verdict == "better_failing"
    assert level.sentence.startswith("Preliminary: on is better than off, but more of its runs failed: tps +20")


def test_a_likely_better_level_with_failures_keeps_interval_and_caveat(admin: User) -> None:
    campaign = measured({"A": A, "B": (10390, 10330, 10480, 10360, 10400)}, admin, order="as_given")
    with_failures(campaign, "B", [40_000] * 5)

    level = queries.campaign_table(campaign).levels[1]

    assert level.verdict == "better_failing"
    assert level.sentence.startswith(
        "B is likely better than A, but more of its transactions failed: tps +2.69 % (95 % CI +1.97 to +3.42 %). 28.6 %"
    )
    assert level.sentence.endswith(orders.FIXED_ORDER)


def test_a_level_of_which_all_runs_failed_has_a_finding(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ()}, admin)

    (finding,) = of("failures", judgements(campaign))

    assert finding.sentence == "10 of 10 planned runs of on failed at first, against 0 of 10 at off."
    assert finding.figures["level"] == "on"


@pytest.mark.parametrize("labels", [("off", "on"), ("on", "off")])
def test_compare_warns_of_the_level_that_fails_more_often(admin: User, labels: tuple[str, str]) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON}, admin)
    with_failures(campaign, "on", [40_000] * 5 + [0] * 5)

    (warning,) = compare([f"level:{campaign.pk}:{label}" for label in labels]).warnings

    assert warning == (
        "28.6 % of the transactions of on failed, against 0 % at off. Its tps counts only those that succeeded. "
        "5 of 10 planned runs of on failed at first, against 0 of 10 at off."
    )


def test_compare_lists_no_keys_of_many_runs_to_find_failures(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON}, admin)
    with_failures(campaign, "on", [40_000] * 5 + [0] * 5)
    sides = [f"level:{campaign.pk}:{label}" for label in ("off", "on")]
    few = compare(sides).warnings
    monkeypatch.setattr("apps.results.answers.comparison.sides.FEW", 0)

    with CaptureQueriesContext(connection) as executed:
        many = compare(sides).warnings

    (counts,) = [each["sql"] for each in executed if "ignored_errors" in each["sql"]]
    assert many == few and not any(run.pk.hex in counts for run in campaign.runs.all())


def test_cancelled_runs_and_few_failures_keep_the_verdict(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF), "on": ON}, admin)
    failed = campaign.runs.filter(outcome=Run.Outcome.FAILED).values("pk")
    Run.objects.filter(pk__in=list(failed.values_list("pk", flat=True)[:2])).update(outcome=Run.Outcome.CANCELLED)

    assert queries.campaign_table(campaign).levels[1].verdict == "better"  # 3 of 8 against 0 of 10


@pytest.mark.parametrize(
    ("level", "baseline", "of", "expected"),
    [
        ((4, 5), (0, 5), 1, True),
        ((3, 5), (0, 5), 1, False),
        ((4, 5), (0, 5), 3, False),  # as one of three levels
        ((5, 5), (5, 5), 1, False),
        ((0, 0), (0, 5), 1, False),
    ],
)
def test_failed_runs_are_compared_by_fisher_s_exact_test(
    level: tuple[int, int], baseline: tuple[int, int], of: int, expected: bool
) -> None:
    assert stats.runs_fail_more(level, baseline, of) is expected


def test_at_most_one_campaign_in_twenty_has_a_false_alarm_of_failed_runs() -> None:
    failed = np.random.default_rng(2).binomial(10, 0.3, size=(1000, 4))

    alarms = [any(stats.runs_fail_more((int(own), 10), (int(base), 10), 3) for own in rest) for base, *rest in failed]

    assert np.mean(alarms) <= 0.05


def test_the_baseline_does_not_fail_more_often_than_itself(admin: User) -> None:
    campaign = measured({"off": (*OFF, *OFF)}, admin)
    ended_badly(campaign.runs.all()[0])

    assert queries.campaign_table(campaign).levels[0].failures == ""

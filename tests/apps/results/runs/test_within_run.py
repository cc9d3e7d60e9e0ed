"""Findings from the samples of a run, on its page and in the API."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import User
from apps.campaigns.models import Artefact, Campaign, Run
from apps.results.models import Mark, Measurement, StepStability
from apps.results.runs import stability
from apps.results.store import fold
from apps.results.store.ingest import SERVER_LOG
from tests.rows.factories import browser, make_campaign, make_workload

pytestmark = pytest.mark.django_db

WARMING = np.repeat([8200.0, 9100, 9600, 9900], 5)
NOISE = np.random.default_rng(1).normal(0, 15, 100)
STEADY = 10000 + NOISE


@pytest.fixture
def run(admin: User) -> Run:
    """Of a workload that writes."""
    workload = make_workload(by=admin, builtin="tpcb-like")
    made = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=1, workload=workload).runs.first()
    assert made is not None
    return made


def sampled(run: Run, tps: Sequence[float] | np.ndarray, source: str = "pgbench", column: str = "tps") -> None:
    """One sample a second, each of the second before it."""
    values = np.asarray(tps, dtype=np.float64)
    fold.append(run, "measure", source, {"t": np.arange(1.0, len(values) + 1), column: values})


def checkpoints(run: Run, *spans: tuple[float, float | None]) -> None:
    Artefact.objects.create(run=run, path=SERVER_LOG, size=1, sha256="", content=b"x")
    for t, until in spans:
        Mark.objects.create(run=run, step="measure", kind="checkpoint", t=t, until=until, label="time", data={})


def judged(run: Run) -> StepStability:
    (row,) = stability.stability_findings(run)
    return row


def sentences_of(row: StepStability, topic: str) -> list[str]:
    return [finding.sentence for finding in stability.findings([row], []) if finding.topic == topic]


def test_a_warm_up_ends_where_the_rate_is_steady(run: Run) -> None:
    sampled(run, [*WARMING, *STEADY])

    row = judged(run)

    assert (row.steady, row.data["warm_up_s"]) == (True, 20)
    assert sentences_of(row, "warm-up") == [
        "Steady after 20 s of 120 s. The tool's figure covers the whole run, warm-up included: "
        "-1.33 % from the steady rate."
    ]
    assert stability.findings([row], [])[0].tone == "warning"  # half of the margin, and more


def test_a_run_that_is_steady_from_the_start_says_so(run: Run) -> None:
    sampled(run, STEADY)

    row = judged(run)

    assert sentences_of(row, "warm-up") == ["Steady from the start of its 100 s."]
    assert sentences_of(row, "stalls")[0].startswith("No stalls; ")
    assert not row.trending


def test_a_run_that_never_settles_is_reported(run: Run) -> None:
    sampled(run, [*(1000 + NOISE[:55]), *(9000 + NOISE[:45])])

    row = judged(run)

    assert row.steady is False
    assert sentences_of(row, "warm-up")[0].startswith("No steady state within 100 s")


def test_a_slow_slide_after_the_warm_up_is_reported(run: Run) -> None:
    sampled(run, STEADY - np.linspace(0, 800, 100))

    row = judged(run)

    assert row.trending
    assert sentences_of(row, "trend")[0].startswith("The rate never became constant: -4.9")


def test_stalls_are_reported_with_their_place(run: Run) -> None:
    rate = STEADY.copy()
    rate[40:43] = rate[70] = 0

    sampled(run, rate)
    row = judged(run)

    assert (row.stalled_s, row.data["stalls"]) == (4, [[40, 43], [70, 71]])
    assert sentences_of(row, "stalls")[0].startswith("Stalled for 4 s in 2 stalls, first at 40 s; dips lost 4.")


def test_checkpoints_are_no_warm_up_and_their_dip_is_reported(run: Run) -> None:
    rate = STEADY.copy()
    rate[9:20] = rate[59:70] = 6000
    sampled(run, rate)
    checkpoints(run, (10, 20), (60, 70))

    row = judged(run)

    assert (row.data["warm_up_s"], row.data["checkpoints"], row.few_checkpoints) == (0, 2, False)
    assert row.data["depth"] == pytest.approx(0.4, abs=0.001)
    (sentence,) = sentences_of(row, "checkpoints")
    assert sentence.startswith("During checkpoints, the rate was -") and sentence.endswith("(2 complete checkpoints).")


def test_a_load_that_writes_needs_two_checkpoints(run: Run) -> None:
    sampled(run, STEADY)
    checkpoints(run, (90, None))

    row = judged(run)

    assert row.few_checkpoints
    assert sentences_of(row, "checkpoints")[0].startswith(
        "The step writes but had no complete checkpoints; the cost of checkpoints needs 2 cycles."
    )


def test_a_load_that_only_reads_needs_none(run: Run) -> None:
    run.spec["steps"][-1]["options"] |= {"builtin": "select-only"}
    sampled(run, STEADY)
    checkpoints(run)

    assert not judged(run).few_checkpoints


def test_few_samples_say_that_they_are_few(run: Run) -> None:
    sampled(run, STEADY[:20])

    row = judged(run)

    assert row.steady is None
    assert sentences_of(row, "warm-up") == [
        "Too short to separate a warm-up from noise: 20 samples at 1 s, but at least 60 are needed."
    ]


def test_the_directions_of_fio_add_up(run: Run) -> None:
    t, reads = np.arange(1.0, 101), np.where(np.arange(100) == 5, np.nan, 700.0)
    fold.append(run, "measure", "fio", {"t": t, "read_iops": reads, "write_iops": np.full(100, 300.0)})

    assert judged(run).data["mean_of_all"] == pytest.approx((99 * 1000 + 300) / 100)


def test_a_run_without_samples_has_nothing_to_say(run: Run) -> None:
    assert stability.stability_findings(run) == []


def test_skipped_transactions_put_p99_beyond_the_limit(run: Run) -> None:
    rows = [
        Measurement(run=run, step="measure", name=name, value=value)
        for name, value in (("transactions", 980), ("skipped", 20))
    ]

    (judgement,) = stability.findings([], rows)

    assert judgement.sentence.startswith(
        "p99 of step measure exceeds the latency limit: 2.00 % of its transactions were skipped"
    )


def test_page_and_api_of_a_run_say_the_same(client: Client, run: Run, admin: User) -> None:
    sampled(run, [*WARMING, *STEADY])
    StepStability.objects.bulk_create(stability.stability_findings(run))
    client.force_login(admin)

    rows = browser(admin).get(f"/api/v1/runs/{run.pk}/observed/").json()["findings"]
    page = client.get(reverse("run_detail", args=[run.pk])).content.decode()

    assert [row["topic"] for row in rows] == ["warm-up", "trend", "stalls"]
    assert all(escape(row["sentence"]) in page for row in rows)


def test_runs_that_were_read_before_are_judged_once(run: Run) -> None:
    sampled(run, STEADY)

    call_command("judge_runs", stdout=io.StringIO())
    first = StepStability.objects.get(run=run)
    call_command("judge_runs", stdout=io.StringIO())

    assert StepStability.objects.get(run=run).pk == first.pk
    call_command("judge_runs", "--all", stdout=io.StringIO())
    assert StepStability.objects.get(run=run).data == first.data

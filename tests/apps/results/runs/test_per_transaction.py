"""Costs per transaction, from the columns of collectors and the transactions of the load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.design import steps
from apps.campaigns.models import Artefact, Campaign, Run, RunPart
from apps.results.answers.judgements import judgements
from apps.results.answers.key_figures import key_figures
from apps.results.models import Measurement
from apps.results.queries import campaign_table
from apps.results.runs.key_figures import of_run
from apps.results.runs.step_means import SERVER, per_transaction, step_means
from apps.results.store import fold
from common.errors import PlanError
from tests.apps.results.answers.judgements.test_judgements import factor, measured
from tests.rows.factories import browser, make_campaign, make_host, make_workload

pytestmark = pytest.mark.django_db

BEGAN, SECONDS = 1795273630.0, 10.0
SEEN = {
    "processes": {"cpu": 150.0, "checkpointer.cpu": 3.0},
    "cpu": {"cpu0.busy": 100.0, "cpu1.busy": 80.0, "busy": 90.0, "ctxt": 4000.0},
    "memory": {"pgfault": 800.0, "MemFree": 1e6},
    "postgresql": {"pg_stat_wal.wal_bytes": 50_000.0, "pg_stat_database.blks_hit": 9.0, "wait.Lock:tuple": 1.0},
}


@pytest.fixture
def run(admin: User) -> Run:
    """Two thousand transactions in ten seconds."""
    made = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=1).runs.first()
    assert made is not None
    record_measured(made.events, "measure")
    return made


def record_measured(events: Any, step: str, began: float = BEGAN, seconds: float = SECONDS) -> None:
    data = {"step": step, "began": began, "ended": began + seconds, "costs": {}}
    events.create(seq=900 + events.count(), at=timezone.now(), kind="measured", data=data)


def sampled(run: Run, step: str, rates: Mapping[str, Mapping[str, float]], seconds: int = 10) -> None:
    """The same rates each second; at 0 nothing has been counted yet."""
    for source, columns in rates.items():
        values = {name: np.array([np.nan] + [rate] * seconds) for name, rate in columns.items()}
        fold.append(run, step, source, {"t": np.arange(seconds + 1.0), **values})


def figures(run: Run, transactions: float = 2000, step: str = "measure") -> dict[str, float]:
    means = step_means(run, step)
    return {row.name: round(row.value, 6) for row in per_transaction(means, transactions)} if means else {}


def test_growth_during_the_step_is_divided_by_its_transactions(run: Run) -> None:
    sampled(run, "measure", SEEN)

    assert figures(run) == {
        "cpu_per_transaction": 7.5,  # 1.5 cpus for 10 s
        "host_cpu_per_transaction": 9.0,
        "context_switches_per_transaction": 20.0,
        "page_faults_per_transaction": 4.0,
        "wal_per_transaction": 250.0,
        "blocks_hit_per_transaction": 0.045,
    }


def test_postgresql_s_own_totals_come_before_its_samples(run: Run) -> None:
    sampled(run, "measure", SEEN | {"postgresql": {"pg_stat_wal.wal_bytes": 1.0, "pg_stat_wal.wal_sync": 1.0}})
    views = {"pg_stat_wal.wal_bytes": 600_000.0, "pg_stat_io.checkpointer.fsyncs": 9.0}
    content = json.dumps({"seconds": SECONDS, "views": views, "tables": [], "statements": []}).encode()
    Artefact.objects.create(run=run, path="out/measure/postgresql.json", size=1, sha256="", content=content)

    values = figures(run)

    # What the views count of files is not among the columns that were seen; no sync of the WAL was counted.
    assert (values["wal_per_transaction"], values["fsyncs_per_transaction"]) == (300.0, 0.0)


def test_a_collector_that_was_silent_for_a_while_is_not_taken_to_have_seen_nothing(run: Run) -> None:
    t, rates = np.array([0.0, 1.0, 2.0, 6.0]), np.array([np.nan, 10.0, np.nan, 20.0])
    fold.append(run, "measure", "cpu", {"t": t, "ctxt": rates, "intr": np.full(4, np.nan)})

    means = step_means(run, "measure")

    assert means and means.data == {"cpu": {"ctxt": (10.0 * 1 + 20.0 * 4) / 5}}


def test_a_wait_event_is_0_before_its_first_sample(run: Run) -> None:
    t, late = np.arange(1.0, 11.0), np.array([np.nan] * 8 + [4.0, 6.0])
    waits = {"wait.running": np.full(10, 2.0), "wait.IO:WalSync": late, "pg_stat_database.numbackends": late}
    fold.append(run, "measure", "postgresql", {"t": t, **waits})

    means = step_means(run, "measure")

    expected = {"wait.running": 2.0, "wait.IO:WalSync": 1.0, "pg_stat_database.numbackends": 5.0}
    assert means and means.data["postgresql"] == expected


def test_parts_of_the_machine_are_summed_and_temperatures_left_out(run: Run) -> None:
    sampled(run, "measure", {"cpu": {"cpu0.busy": 30.0, "cpu1.busy": 12.0}, "frequency": {"x86-0.celsius": 60.0}})

    means = step_means(run, "measure")

    assert means and means.data == {"cpu": {"<cpu>.busy": 42.0}}


def test_without_collectors_or_transactions_there_are_no_figures(run: Run) -> None:
    assert figures(run) == {}

    sampled(run, "measure", SEEN)
    assert figures(run, transactions=0) == {}


def test_with_the_load_on_another_host_the_server_s_host_counts(run: Run) -> None:
    part = RunPart.objects.create(
        run=run, host=make_host(), role=RunPart.Role.SERVER, position=0, spec={"target": {}}, digest="x"
    )
    record_measured(part.events, "serve", BEGAN - 5, 30)  # it serves from before the step until after it
    sampled(run, "measure", {"cpu": {"cpu0.busy": 7.0}})
    idle, busy = [0.0] * 5, [60.0] * 10
    fold.append(run, SERVER, "cpu", {"t": np.arange(1.0, 16.0), "cpu0.busy": np.array([*idle, *busy])})

    assert figures(run) == {"host_cpu_per_transaction": 3.0}


def test_runs_of_older_releases_get_them_by_judge_runs(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    sampled(run, "measure", SEEN | {"pgbench": {"tps": 200.0}})
    Measurement.objects.create(run=run, step="measure", name="transactions", value=2000, unit="transactions")
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(seconds=20))

    call_command("judge_runs")
    call_command("judge_runs", "--all")

    row = run.measurements.get(name="cpu_per_transaction")
    assert (row.value, row.unit, row.better) == (7.5, "ms", "lower")


def test_a_campaign_may_compare_figures_whose_collector_samples(admin: User) -> None:
    assert "cpu_per_transaction" in steps.metrics(make_workload(by=admin).steps)
    assert "blocks_hit_per_transaction" not in steps.metrics(make_workload(by=admin).steps)  # neither is better

    assert make_campaign(by=admin, metric="cpu_per_transaction").metric == "cpu_per_transaction"
    with pytest.raises(PlanError, match="cpu_per_transaction needs the collector processes") as raised:
        make_campaign(by=admin, metric="cpu_per_transaction", sources=["cpu", "memory"])
    assert raised.value.subject == "metric"
    assert raised.value.hint == "add processes to the collectors, or choose another metric"


NOISY = {"off": (9800, 10900, 9100, 10300, 9700), "on": (10900, 9300, 10400, 9500, 11000)}
CPU = {"off": (2.00, 2.01, 1.99, 2.02, 2.00), "on": (1.80, 1.82, 1.79, 1.81, 1.80)}


def with_cpu(admin: User, cpu: Mapping[str, tuple[float, ...]] = CPU) -> Campaign:
    campaign = measured(NOISY, admin, factor("huge pages", "off", "on"))
    for each in campaign.runs.all():
        row = Measurement(run=each, step="measure", name="cpu_per_transaction", unit="ms", better="lower")
        row.value = cpu[each.label][each.block]
        row.save()
    return campaign


def test_the_answer_says_that_cpu_time_is_sure_where_throughput_is_not(admin: User, client: Client) -> None:
    campaign = with_cpu(admin)
    sentence = (
        "tps is inconclusive, but on needs less CPU time per transaction than off: -9.98 % (95 % CI -10.4 to "
        "-9.56 %, p < 0.001)."
    )

    (level,) = [each for each in campaign_table(campaign).levels if each.label == "on"]
    assert (level.verdict, level.cpu) == ("undetectable", sentence)
    assert [judgement.sentence for judgement in judgements(campaign) if judgement.topic == "cpu"] == [sentence]
    client.force_login(admin)
    page = client.get(reverse("campaign_detail", args=[campaign.pk]))
    assert page.context["card"].note.startswith(sentence)
    answer = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/results/").json()
    assert [each["cpu"] for each in answer["levels"]] == ["", sentence]


@pytest.mark.parametrize(
    "cpu",
    [
        pytest.param({"off": CPU["off"], "on": (1.6, 2.4, 1.9, 2.2, 1.8)}, id="CPU time is not sure either"),
        pytest.param({"off": CPU["off"], "on": CPU["off"]}, id="CPU time is equivalent"),
    ],
)
def test_the_answer_omits_cpu_time_that_does_not_differ(admin: User, cpu: Mapping[str, tuple[float, ...]]) -> None:
    assert [level.cpu for level in campaign_table(with_cpu(admin, cpu)).levels] == ["", ""]


def test_key_figures_have_the_cost_of_a_transaction(admin: User) -> None:
    by_title = {key_figure.title: key_figure for key_figure in key_figures(with_cpu(admin), "on")}

    assert (round(by_title["CPU per transaction"].value, 3), by_title["CPU per transaction"].unit) == (1.804, "ms")


def test_what_a_transaction_costs_is_a_strip_of_its_own_on_both_pages(client: Client, admin: User) -> None:
    campaign = with_cpu(admin)
    client.force_login(admin)

    run = campaign.runs.filter(outcome=Run.Outcome.OK)[0]
    for page in (reverse("campaign_detail", args=[campaign.pk]), reverse("run_detail", args=[run.pk])):
        html = client.get(page).content.decode()
        first, per_transaction = html.split('<p class="key-figures-title" id="per-transaction">Per transaction</p>')
        assert "<dt>TPS" in first.split('class="key-figures"')[1]
        assert "<dt>CPU</dt>" in per_transaction.partition("</dl>")[0]


def test_key_figures_of_a_run_add_up_cpus_and_the_share_of_hits(admin: User) -> None:
    run = with_cpu(admin).runs.filter(outcome=Run.Outcome.OK).first()
    assert run
    step = run.measurements.get(name="tps").step
    for name, value in (("blocks_hit_per_transaction", 9.0), ("blocks_read_per_transaction", 1.0)):
        Measurement.objects.create(run=run, step=step, name=name, value=value, unit="blocks")
    rows = {row.name: row.value for row in run.measurements.all()}

    by_title = {each.title: each.value for each in of_run(run, list(run.measurements.all()))}

    assert by_title["cache hit"] == pytest.approx(90.0)
    assert by_title["CPUs used by PostgreSQL"] == pytest.approx(rows["cpu_per_transaction"] * rows["tps"] / 1000)
    assert "complete checkpoints" not in by_title

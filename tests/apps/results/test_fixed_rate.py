"""Campaigns at a fixed rate: latencies are compared on all pages, in the API, alerts and searches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results import queries
from apps.results.answers import interim_analyses
from apps.results.answers.answer_card import answer_card
from apps.results.answers.comparison.compare import compare
from apps.results.answers.history import regressions
from apps.results.answers.history.baselines import baselines
from apps.results.answers.history.trend import trend
from apps.results.answers.judgements import judgements
from apps.results.models import Measurement
from apps.results.report import report_markdown
from apps.searches import services as searches
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign, make_host, make_schedule, make_workload
from tests.rows.scheduled import measured

pytestmark = pytest.mark.django_db
RATE = 100


def at_fixed_rate(by: User, **fields: object) -> Campaign:
    """A campaign whose levels have the same tps, but whose second level has twice the latency."""
    workload = make_workload(by=by, rate=RATE)
    made = make_campaign(Campaign.State.FINISHED, by=by, workload=workload, repetitions=5, **fields)
    for run in made.runs.all():
        run.measurements.filter(name="tps").update(value=RATE + 0.01 * run.block)
        latency = (4.0 if run.label.startswith("2") else 2.0) + 0.01 * run.block
        run.measurements.filter(name="latency_avg").update(value=latency)
    return made


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return at_fixed_rate(admin)


def test_headline_card_and_findings_are_of_the_latency(campaign: Campaign) -> None:
    table = queries.campaign_table(campaign)
    card = answer_card(table, ended=True, retriable=0, run_s=1.0, planned=5)

    assert (table.metric, table.unit, table.better) == ("latency_avg", "ms", "lower")
    assert table.sentence.startswith("2 cpus is worse than 1 cpu: latency avg +9")
    assert card.word == "Worse"
    findings = judgements(campaign)
    assert not [each for each in findings if each.topic == "comparison" and "tps" in each.sentence]
    (why,) = [each.sentence for each in findings if each.topic == "fixed rate"]
    assert why.startswith("latency_avg is compared instead of tps. All levels have a fixed rate")


def test_a_latency_that_was_chosen_needs_no_explanation(admin: User) -> None:
    findings = judgements(at_fixed_rate(admin, metric="latency_avg"))

    assert [each for each in findings if each.topic == "fixed rate"] == []


def test_the_api_and_the_report_have_the_latency(campaign: Campaign, admin: User) -> None:
    client = browser(admin)

    assert client.get(f"/api/v1/campaigns/{campaign.pk}/results/").json()["metric"] == "latency_avg"
    head = next(line for line in report_markdown(campaign) if "against 1 cpu" in line)
    assert "(ms)" in head
    assert "tps" not in head


def test_compare_uses_the_latency_and_warns_of_the_throughput(campaign: Campaign) -> None:
    sides = [f"level:{campaign.pk}:1 cpu", f"level:{campaign.pk}:2 cpus"]

    by_default, by_tps = compare(sides), compare(sides, figure="measure.tps")

    assert (by_default.figure, by_default.comparisons[0].verdict) == ("measure.latency_avg", "worse")
    assert by_default.warnings == []
    assert by_tps.warnings[0].startswith("All levels have a fixed rate: measure.tps only shows whether they kept up")


def test_a_regression_of_a_schedule_is_one_of_the_latency(admin: User) -> None:
    workload = make_workload(by=admin, rate=RATE)
    schedule = make_schedule(make_campaign(by=admin, workload=workload), name="nightly")
    first, noise = datetime(2026, 5, 1, 2, 30, tzinfo=UTC), (1.0, 1.012, 0.991, 1.004, 0.985, 1.009)
    slots = [measured(schedule, first + timedelta(days=day), 1.0) for day in range(len(noise) + 1)]
    for slot, factor in zip(slots, (*noise, 2.0), strict=True):
        rows = Measurement.objects.filter(run__campaign=slot.campaign, name="latency_avg")
        rows.update(value=F("value") * factor)

    regressions.compare_due(first)

    assert trend(schedule).quantity == "latency_avg (ms)"
    slots[-1].refresh_from_db()
    assert "latency_avg +10" in slots[-1].regression


def test_the_runs_of_a_host_over_time_are_judged_by_the_latency(admin: User) -> None:
    host, workload = make_host(), make_workload(by=admin, rate=RATE)
    one = [{"name": "again", "levels": [{"label": "as it is", "set": {}}]}]
    for place in range(12):
        made = make_campaign(
            Campaign.State.FINISHED, by=admin, host=host, repetitions=1, factors=one, workload=workload, name="again"
        )
        made.runs.get().measurements.filter(name="latency_avg").update(value=9.0 if place == 11 else 2 + 0.01 * place)

    (baseline,) = baselines(host)

    assert (baseline.title, baseline.quantity) == ("again, as it is: latency_avg", "latency_avg (ms)")
    assert "is out of line" in baseline.judgements()[0].sentence


def test_an_interim_analysis_is_of_the_latency_and_one_of_the_throughput_is_left_out(admin: User) -> None:
    stop = {"until": "verdict", "between": [{"server cpus": "1 cpu"}, {"server cpus": "2 cpus"}], "least": 3}
    campaign = at_fixed_rate(admin, stop=stop)
    analysis = interim_analyses.newest(campaign)

    assert analysis is None or analysis.comparison["metric"] == "latency_avg"
    campaign.interim_analyses.create(
        number=9, blocks=5, planned=5, alpha=0.05, alpha_90=0.1, nominal_p=0.05, met=False, comparison={"metric": "tps"}
    )
    assert interim_analyses.newest(campaign) is None


@pytest.mark.parametrize(
    ("fields", "field"), [({}, "campaign"), ({"metric": "latency_avg", "second_metric": "tps"}, "second_metric")]
)
def test_a_search_for_a_better_throughput_is_refused(admin: User, fields: dict[str, str], field: str) -> None:
    second = fields.pop("second_metric", "")
    campaign = at_fixed_rate(admin, **fields)

    with pytest.raises(PlanError, match="all runs have a fixed rate, so tps does not show") as refused:
        searches.create_search(campaign, by=admin, name="s", space=["work_mem 4MB..64MB"], second_metric=second)

    assert refused.value.subject == field
    assert "latency_avg" in refused.value.hint


def test_the_list_of_runs_has_the_latency(campaign: Campaign) -> None:
    run = Run.objects.filter(campaign=campaign).first()
    assert run is not None

    assert queries.metric_values(campaign, [run])[run.pk] < 5

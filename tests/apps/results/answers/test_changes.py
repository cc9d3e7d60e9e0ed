""" "What changed with it": figures against the baseline, and known mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.library import workloads
from apps.campaigns.models import Artefact, Campaign, Run
from apps.results.answers.changes import answer, figures, phrases, plans
from apps.results.answers.changes.mechanisms import MECHANISMS, amount, mechanisms
from apps.results.answers.changes.observed import PlacedRun
from apps.results.answers.changes.observed import observed as observed_figures
from apps.results.answers.changes.of_campaign import campaign_changes
from apps.results.answers.changes.of_comparison import APART, comparison_changes
from apps.results.answers.comparison.compare import read
from apps.results.answers.judgements import judgements
from apps.results.models import Measurement, StepMeans
from apps.results.queries import campaign_table
from stats.comparison.associations import Association
from tests.apps.results.answers.judgements.test_judgements import factor, measured
from tests.rows.factories import browser, make_campaign

COMMIT = "settings.postgresql.synchronous_commit"
FAST = {"on": (1000, 1010, 990, 1005, 995, 1002), "off": (1900, 1920, 1890, 1905, 1899, 1910)}
Data = Mapping[str, Mapping[str, float]]


def sample_means(noise: Callable[[], float], synced: bool) -> dict[str, dict[str, float]]:
    """Means of the collectors at 1000 or 1900 transactions a second: with syncs, backends wait for WAL."""
    rate = 1000.0 if synced else 1900.0
    own = {
        "pg_stat_database.blks_hit": 30 * rate * noise(),
        "pg_stat_database.blks_read": 0.1 * rate * noise(),
        "pg_stat_wal.wal_bytes": 500 * rate * noise(),
        "wait.running": 2.0 * noise(),
        "wait.Client:ClientRead": 5.0 * noise(),
        "wait.Lock:tuple": 0.001,
    }
    if synced:
        own |= {"pg_stat_wal.wal_sync": 0.5 * rate * noise(), "wait.IO:WALSync": 6.0 * noise()}
    memory = {"PageTables": 30_000 * noise(), "Shmem": 262_144.0, "Cached": 2e6 * noise()}
    return {"postgresql": own, "memory": memory, "cpu": {"user": 40 * noise(), "ctxt": 20 * rate * noise()}}


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return observed(admin, FAST)


def observed(admin: User, values: Mapping[str, tuple[float, ...]]) -> Campaign:
    made = measured(values, admin, factor("synchronous_commit", *values, path=COMMIT))
    rng = np.random.default_rng(3)
    for run in made.runs.order_by("position"):
        looked_at(run, sample_means(lambda: float(rng.lognormal(0, 0.01)), run.label == "on"))
    return made


def looked_at(run: Run, data: Data) -> None:
    StepMeans.objects.create(run=run, step="measure", seconds=10.0, data=data)
    transactions = run.measurements.get(name="tps").value * 10
    Measurement.objects.create(run=run, step="measure", name="transactions", value=transactions, unit="transactions")


@pytest.mark.django_db
def test_figures_that_differ_are_listed_with_interval_and_group(campaign: Campaign) -> None:
    (level,) = campaign_changes(campaign, campaign_table(campaign)).levels

    rows = {row.figure: row for row in level.changes}
    assert rows["wait.IO:WALSync"].group == "locks and waits"
    assert rows["wait.IO:WALSync"].change == pytest.approx(-75, abs=1)  # points: 6 of 8 active backends
    assert rows["fsyncs_per_transaction"].after == 0 and rows["fsyncs_per_transaction"].change_text == "-0.499 fsyncs"
    assert rows["fsyncs_per_transaction"].interval_text == "-0.503 to -0.495 fsyncs"
    assert "memory.PageTables" not in rows and "wal_per_transaction" not in rows  # noise
    assert "wait.Lock:tuple" not in rows and "wait.Client:ClientRead" not in rows  # rare, and idle
    assert all(row.low * row.high > 0 for row in level.changes)
    assert [row.effect is None for row in level.changes].count(True) == 0
    assert level.sentence.startswith("With synchronous_commit=off, against synchronous_commit=on: ")
    assert level.sentence.endswith("; tps +90.3 %.")


@pytest.mark.django_db
def test_a_known_mechanism_is_named_when_its_figures_moved_as_expected(campaign: Campaign) -> None:
    (sentence,) = [judgement.sentence for judgement in judgements(campaign) if judgement.topic == "mechanism"]

    assert sentence.startswith("As expected of synchronous_commit, with synchronous_commit=off: ")
    assert sentence.endswith("whether a commit waits until its WAL is flushed.")


@pytest.mark.django_db
def test_a_level_without_detectable_changes_says_so(admin: User) -> None:
    campaign = observed(admin, {"local": FAST["on"], "remote_write": FAST["on"]})

    changes = campaign_changes(campaign, campaign_table(campaign))

    assert not changes.levels[0].changes and not changes.levels[0].mechanisms
    assert changes.levels[0].sentence.startswith("No figure differs detectably between")


@pytest.mark.django_db
def test_too_few_runs_allow_no_comparison_of_figures(admin: User, client: Client) -> None:
    campaign = observed(admin, {level: values[:2] for level, values in FAST.items()})

    changes = campaign_changes(campaign, campaign_table(campaign))

    assert changes.note == "Too few runs to compare other figures: a comparison needs 3 of each level."
    client.force_login(admin)
    assert changes.note in client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()


@pytest.mark.django_db
def test_levels_that_share_too_few_blocks_say_so(campaign: Campaign) -> None:
    table = campaign_table(campaign)
    (off,) = [level for level in table.levels if level.label == "off"]
    off.points[:] = [replace(point, block=point.block + (100 if point.block > 1 else 0)) for point in off.points]

    changes = campaign_changes(campaign, table)

    assert changes.levels == []
    assert changes.note == answer.FEW_BLOCKS


@pytest.mark.django_db
def test_each_of_several_hosts_is_a_block_unless_they_are_identical(campaign: Campaign) -> None:
    table = campaign_table(campaign)
    for level in table.levels:
        level.points[:] = [replace(point, host=f"host {point.block % 2}") for point in level.points]

    changes = campaign_changes(campaign, replace(table, identical_hosts=False))
    identical = campaign_changes(campaign, replace(table, identical_hosts=True))

    assert (changes.levels, changes.note) == ([], answer.FEW_BLOCKS)
    assert [level.label for level in identical.levels] == ["off"]


@pytest.mark.django_db
def test_more_runs_than_a_page_can_scan_are_not_compared(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MOST_RUNS", campaign.runs.count() - 1)

    changes = campaign_changes(campaign, campaign_table(campaign))

    assert (changes.levels, changes.note) == ([], answer.TOO_MANY)


@pytest.mark.django_db
def test_the_level_of_the_answer_comes_first_and_others_are_folded(admin: User, client: Client) -> None:
    made = observed(admin, {"on": FAST["on"], "local": FAST["on"], "off": FAST["off"]})
    client.force_login(admin)

    page = client.get(reverse("campaign_detail", args=[made.pk])).content.decode()

    section = page.split("What changed with it")[1].split("</section>")[0]
    assert "<summary>synchronous_commit=local: " in section
    assert "<summary>synchronous_commit=off: " not in section
    assert 'aria-label="What changed with synchronous_commit=off"' in section


@pytest.mark.django_db
def test_a_run_without_a_transaction_has_no_figures_per_transaction(campaign: Campaign) -> None:
    idle = next(run for run in campaign.runs.all() if run.label == "off")
    idle.measurements.filter(name="transactions").update(value=0)

    places = [PlacedRun(run.pk, run.label, run.block, run.position) for run in campaign.runs.all()]
    rows = observed_figures("measure", places, "tps").rows["wal_per_transaction"]

    assert [row.value for row in rows] == pytest.approx([500] * 11, rel=0.1)  # the twelfth has bytes per second alone


@pytest.mark.django_db
def test_without_collectors_no_change_is_listed(admin: User, client: Client) -> None:
    campaign = measured(FAST, admin, factor("synchronous_commit", *FAST, path=COMMIT))

    assert campaign_changes(campaign, campaign_table(campaign)).judgements() == []
    client.force_login(admin)
    assert b"What changed with it" not in client.get(reverse("campaign_detail", args=[campaign.pk])).content


@pytest.mark.django_db
def test_the_page_opens_five_rows_and_folds_the_rest(campaign: Campaign, admin: User, client: Client) -> None:
    client.force_login(admin)
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()

    section = page.split("What changed with it")[1].split("</section>")[0]
    opened, folded = section.split("<details>")
    assert opened.count('<th scope="row">') == 5
    assert folded.count('<th scope="row">') == len(
        campaign_changes(campaign, campaign_table(campaign)).levels[0].folded
    )
    assert "Associations, not causes" in section


@pytest.mark.django_db
def test_the_api_gives_the_rows_with_the_sentence(campaign: Campaign, admin: User) -> None:
    rows = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/judgements/").json()

    (changed,) = [row for row in rows if row["topic"] == "what changed"]
    assert changed["figures"]["level"] == "off"
    assert {"figure", "group", "unit", "before", "after", "change", "low", "high", "effect", "q"} <= set(
        changed["figures"]["changes"][0]
    )


@pytest.mark.django_db
def test_loads_without_transactions_are_compared_per_second(admin: User) -> None:
    campaign = observed(admin, FAST)
    Measurement.objects.filter(name="transactions").delete()

    (level,) = campaign_changes(campaign, campaign_table(campaign)).levels

    (row,) = [change for change in level.changes if change.figure == "context_switches_per_transaction"]
    assert (row.title, row.unit, round(row.after, -3)) == ("context switches", "switches/s", 38000)


@pytest.mark.django_db
def test_a_comparison_of_two_levels_lists_the_same_changes(campaign: Campaign, admin: User, client: Client) -> None:
    of = [f"level:{campaign.pk}:{label}" for label in ("on", "off")]

    comparison = browser(admin).get("/api/v1/compare/", {"of": of}).json()

    (side,) = comparison["changes"]
    (level,) = campaign_changes(campaign, campaign_table(campaign)).levels
    assert [figure["figure"] for figure in side["figures"]] == [change.figure for change in level.changes]
    assert (side["side"], len(side["mechanisms"]), comparison["plans"]) == ("off", 1, [])
    client.force_login(admin)
    assert "What changed with it" in client.get(reverse("compare"), {"of": of}).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("state", [Campaign.State.RUNNING, Campaign.State.FINISHED])
def test_compare_says_that_changes_hold_when_the_campaign_has_ended(
    campaign: Campaign, admin: User, client: Client, state: str
) -> None:
    Campaign.objects.filter(pk=campaign.pk).update(state=state)
    client.force_login(admin)

    page = client.get(reverse("compare"), {"of": [f"level:{campaign.pk}:{label}" for label in ("on", "off")]})

    said = "This holds when the campaign has ended." in page.content.decode()
    assert said == (state == Campaign.State.RUNNING)


@pytest.mark.django_db
def test_campaigns_of_two_days_are_not_compared_in_all_figures(campaign: Campaign, admin: User) -> None:
    other = observed(admin, FAST)

    comparison = read(QueryDict(f"of=level:{campaign.pk}:on&of=level:{other.pk}:off"))

    assert comparison_changes(comparison).levels == []
    assert comparison_changes(comparison).note == APART


EXPLAINED = """                        QUERY PLAN
----------------------------------------------------------
 {} (cost=0.00..35.50 rows=2550 width=4) (actual time=0.010..0.011 rows=1 loops=1)
 Planning Time: 0.1 ms
 Execution Time: 0.1 ms
(3 rows)

at 1795273630.000001
"""
SCAN, INDEX = "Seq Scan on t", "Index Only Scan using t_pkey on t"


@pytest.mark.django_db
def test_a_plan_change_is_shown_with_both_plans(admin: User, client: Client) -> None:
    steps = [{"name": "q", "role": "measure", "kind": "sql", "options": {"query": "select 1", "times": 3}}]
    by_level = {"on": [SCAN], "off": [INDEX]}
    campaign = make_campaign(
        Campaign.State.FINISHED,
        by=admin,
        factors=[factor("enable_seqscan", "on", "off", path="settings.postgresql.enable_seqscan")],
        workload=workloads.save_workload("plans", steps, by=admin),
        metric="execution_mean",
    )
    for run in campaign.runs.all():
        content = "".join(EXPLAINED.format(plan) for plan in by_level[run.label] * 3).encode()
        Artefact.objects.create(run=run, path="out/q/stdout", size=len(content), sha256="", content=content)
        Measurement.objects.create(run=run, step="q", name="execution_mean", value=2.0, unit="ms", better="lower")

    (judgement,) = [each for each in judgements(campaign) if each.topic == "plans"]

    assert judgement.sentence == (
        f"The plan of step q differs with enable_seqscan=off, against enable_seqscan=on: {SCAN} becomes {INDEX}."
    )
    assert (judgement.figures["before"], judgement.figures["after"]) == (SCAN, INDEX)
    client.force_login(admin)
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    assert f"<pre>{SCAN}</pre>" in page and f"<pre>{INDEX}</pre>" in page


@pytest.mark.parametrize(
    ("gone", "added", "text"),
    [
        (SCAN, INDEX, f"{SCAN} becomes {INDEX}"),
        (SCAN, "", f"without {SCAN}"),
        ("", INDEX, f"{INDEX} is added"),
        ("", "", "the same nodes in a different order"),
    ],
)
def test_the_difference_of_two_plans_is_a_phrase(gone: str, added: str, text: str) -> None:
    assert plans.difference(gone, added) == text


def test_a_difference_that_does_not_vary_has_no_interval() -> None:
    figure = figures.WatchedFigure("pages", "huge pages", figures.MEMORY, "pages", "gauge")
    same = Association("pages", "b", 9, 1, 129, False, 128, 128, 128, None, 0.001, 0.01)

    assert (
        phrases.sentence("b", "a", [(same, figure)], 5, "")
        == "With b, against a: huge pages +128 pages (no variation)."
    )


def moved(figure: str, change: float, differs: bool = True) -> Association:
    return Association(figure, "b", 5, 1, 2, True, change, change - 1, change + 1, 3.0, 0.001, 0.01 if differs else 0.5)


HUGE = "settings.huge_pages.use"
ON, OFF = {HUGE: "on"}, {HUGE: "off"}
TABLES, MISSES = "memory.PageTables", "perf.dTLB-load-misses"


@pytest.mark.parametrize(
    ("associations", "observed", "before", "after", "shows"),
    [
        pytest.param([moved(TABLES, -90)], {TABLES}, OFF, ON, True, id="all that was observed moved"),
        pytest.param([moved(TABLES, 90)], {TABLES}, ON, OFF, True, id="the other way round"),
        pytest.param([moved(TABLES, 90)], {TABLES}, OFF, ON, False, id="in the wrong direction"),
        pytest.param([moved(TABLES, -90, False)], {TABLES}, OFF, ON, False, id="not surely"),
        pytest.param([moved(TABLES, -90)], {TABLES, MISSES}, OFF, ON, False, id="one of two stayed the same"),
        pytest.param([], set(), OFF, ON, False, id="nothing was observed"),
        pytest.param([moved(TABLES, -90)], {TABLES}, ON, ON, False, id="the setting is the same"),
        pytest.param([moved(TABLES, -90)], {TABLES}, {}, ON, False, id="the setting of the baseline is not known"),
    ],
)
def test_a_mechanism_needs_all_of_its_figures(
    associations: list[Association], observed: set[str], before: dict[str, Any], after: dict[str, Any], shows: bool
) -> None:
    assert bool(list(mechanisms(associations, observed, before, after))) is shows


def test_mechanisms_expect_figures_that_exist() -> None:
    known = {figure.key for figure in figures.COLLECTED}

    for mechanism in MECHANISMS:
        assert mechanism.expected.keys() <= known, mechanism.title


def test_every_column_of_a_figure_is_one_that_its_collector_has() -> None:
    from agents.collectors import COLLECTORS

    for figure in figures.COLLECTED:
        if figure.columns:
            declared = [
                name.replace("<backend_type>", "client backend wal") for name in COLLECTORS[figure.source].columns
            ]
            declared += [name.replace("<backend_type>", "client backend") for name in COLLECTORS[figure.source].columns]
            assert any(figure.uses(name) for name in declared), figure.key


@pytest.mark.parametrize(
    ("parameter", "value", "number"),
    [
        ("shared_buffers", "128MB", 128 * 2**20),
        ("shared_buffers", "8kB", 8192),
        ("shared_buffers", "16384", 128 * 2**20),  # in units of 8 kB
        ("max_wal_size", 1024, 2**30),  # in MB
        ("checkpoint_timeout", "5min", 300e6),
        ("checkpoint_timeout", 300, 300e6),
        ("checkpoint_timeout", "5 moons", None),
        ("shared_buffers", "many", None),
    ],
)
def test_amounts_have_an_order_with_and_without_a_unit(parameter: str, value: Any, number: float | None) -> None:
    assert amount(parameter)(value) == number


def test_instructions_per_cycle_are_those_of_the_whole_step() -> None:
    values = figures.collected({"perf": {"cycles": 2e9, "instructions": 3e9, "ipc": 0.7}}, 10.0, 1000.0)

    assert (values["ipc"], values["perf.cycles"]) == (1.5, 2e7)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.89e-05, "faults", "0.0000189 faults"),
        (0.0, "%", "0 %"),
        (10123.4, "B", "10,100 B"),
        (1_258_291.2, "kB", "1.2 GiB"),
    ],
)
def test_amounts_are_written_with_three_digits(value: float, unit: str, text: str) -> None:
    assert phrases.amount(value, unit) == text


def test_shares_of_waits_are_of_active_backends() -> None:
    data = {"postgresql": {"wait.running": 1.0, "wait.IO:WalSync": 3.0, "wait.Client:ClientRead": 9.0}}

    assert figures.waits(data) == {"wait.running": 25, "wait.IO:WalSync": 75, "wal_waits": 75}

"""Fidelity: how much a run of a twin resembles production, from the counts of pg_stat_statements in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns.library import workloads
from apps.campaigns.models import Artefact, Campaign, Twin
from apps.campaigns.twins import services as twins
from apps.results.runs import counters
from apps.results.runs.fidelity import badge, fidelity_of_statements, lowest
from tests.rows.factories import make_campaign, make_twin

CAPTURE = Path(__file__).parents[3] / "contract" / "captures" / "shop-18.jsonl"


def counted(script: str, calls: int, rows: float = 1.0, blocks: float = 3.01, **other: float) -> dict[str, Any]:
    """A statement of a run, with these rows and blocks per call."""
    hit = {"shared_blks_hit": calls * blocks, "shared_blks_read": 0}
    return {"query": f"select /* {script} */ id from t", "calls": calls, "rows": calls * rows, **hit, **other}


@pytest.fixture
def twin(db: None) -> Twin:
    """It has one statement, with 90 % of production's time: 1 row and 3.01 blocks per call."""
    return make_twin()


@pytest.mark.parametrize(
    ("statements", "value"),
    [
        ([counted("s01", 600)], 0.9),
        ([counted("s01", 600, rows=2.0)], 0.9 * (1 + 0.5 + 1) / 3),
        ([counted("s01", 600, blocks=30.1)], 0.9 * (1 + 1 + 0.1) / 3),
        ([counted("s01", 200), counted("s01", 400)], 0.9),
        ([counted("s01", 600), counted("s07", 10_000)], 0.9),
        ([counted("s01", 600, total_exec_time=9e9)], 0.9),
        ([counted("s07", 600)], 0.0),
    ],
    ids=[
        "same",
        "twice the rows",
        "ten times the blocks",
        "two texts",
        "not of the twin",
        "slower host",
        "did not run",
    ],
)
def test_fidelity_is_the_covered_time_times_the_mean_of_three_ratios(
    twin: Twin, statements: list[Any], value: float
) -> None:
    assert fidelity_of_statements(twin, statements, 60.0).value == pytest.approx(value)


def test_the_share_of_calls_is_of_the_statements_of_the_twin(twin: Twin) -> None:
    other = {**twin.statements[1], "script": "s02", "reason": ""}
    twin.statements = [{**twin.statements[0], "share": 0.5}, {**other, "share": 0.5}]

    both = fidelity_of_statements(twin, [counted("s01", 300), counted("s02", 100)], 60.0)

    assert [statement.twin and statement.twin.calls_share for statement in both.statements] == [0.75, 0.25]
    assert [statement.production.calls_share for statement in both.statements] == [0.5, 0.5]
    assert both.resemblance == pytest.approx(0.5 * (2 / 3 + 2) / 3 + 0.5 * (0.5 + 2) / 3)


def campaign_of(admin: User) -> Campaign:
    """A campaign of four runs of a twin."""
    twin = twins.create("shop", CAPTURE.read_bytes(), by=admin)
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=2)
    Campaign.objects.filter(pk=campaign.pk).update(workload=twin.workload, dataset=twin.dataset)
    return Campaign.objects.select_related("dataset").get(pk=campaign.pk)


def test_the_lowest_fidelity_of_the_runs_is_that_of_the_campaign(admin: User, django_assert_num_queries: Any) -> None:
    campaign = campaign_of(admin)
    for run, calls in zip(campaign.runs.order_by("position"), (10, 20, 0), strict=False):
        statements = [counted("s01", calls, blocks=calls)] if calls else []
        content = json.dumps({"seconds": 60.0, "views": {}, "tables": [], "statements": statements}).encode()
        Artefact.objects.create(run=run, path=counters.path_of(twins.STEP), size=1, sha256="", content=content)

    with django_assert_num_queries(2):  # the twin, and the counts of all runs
        result = lowest(campaign)

    assert result is not None and result.value is not None and result.runs == 2
    highest = fidelity_of_statements(result.twin, [counted("s01", 20, blocks=20)], 60.0).value
    assert result.value == pytest.approx(
        fidelity_of_statements(result.twin, [counted("s01", 10, blocks=10)], 60.0).value
    )
    assert result.value != pytest.approx(highest)
    assert badge(campaign) == f"twin, fidelity {100 * result.value:.0f} %"


def test_a_changed_workload_with_the_same_scripts_still_runs_the_twin(admin: User) -> None:
    campaign = campaign_of(admin)
    twin = campaign.workload.twins.get()
    (step,) = campaign.workload.steps
    first = {"name": "prepare", "role": "warm", "kind": "sql", "options": {"statements": "select 1"}}
    more = {**step, "options": {**step["options"], "clients": 3}}
    other = {**step, "options": {**step["options"], "scripts": step["options"]["scripts"][:1]}}
    changed, fewer = (
        workloads.save_workload(name, steps, by=admin) for name, steps in (("more", [first, more]), ("fewer", [other]))
    )

    for workload, expected in ((changed, twin), (fewer, None)):
        Campaign.objects.filter(pk=campaign.pk).update(workload=workload)
        again = Campaign.objects.get(pk=campaign.pk)
        assert twins.of_campaign(again) == expected
        assert twins.twins_of([again]) == ({campaign.pk: twin} if expected else {})


def test_a_campaign_without_a_twin_has_no_fidelity(db: None) -> None:
    campaign = make_campaign()

    assert lowest(campaign) is None and badge(campaign) == ""

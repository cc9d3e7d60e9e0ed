"""The design of a campaign is pure: factors and a seed in, ordered and resolved runs out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agents.workloads import WORKLOADS
from apps.campaigns import plan
from apps.errors import PlanError
from apps.results.stats import METRICS

BASE: dict[str, Any] = {
    "target": None,
    "settings": {"postgresql": {"work_mem": "4MB"}},
    "workload": {"kind": "pgbench", "options": {"builtin": "select-only", "clients": 1, "time_s": 5}},
    "collect": {"interval_s": 1, "sources": ["cpu"]},
}
CPUS = {
    "name": "cpus",
    "levels": [
        {"label": "1 cpu", "set": {"settings.cpu_affinity.server": "0"}},
        {"label": "2 cpus", "set": {"settings.cpu_affinity.server": "0,1"}},
    ],
}
CLIENTS = {
    "name": "clients",
    "levels": [{"label": str(n), "set": {"workload.clients": n}} for n in (1, 8, 64)],
}


def expand(*factors: dict[str, Any], repetitions: int = 3, order: str = "randomised", seed: int = 1) -> list[Any]:
    return plan.expand(BASE, plan.read_factors(list(factors)), repetitions, order, seed)


def test_every_combination_runs_once_in_each_block() -> None:
    runs = expand(CPUS, CLIENTS, repetitions=4)

    seen = Counter((run.block, tuple(run.cell.items())) for run in runs)
    assert len(runs) == 2 * 3 * 4
    assert set(seen.values()) == {1}
    assert [run.position for run in runs] == list(range(24))
    assert [run.block for run in runs] == sorted(run.block for run in runs)


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    labels = [[tuple(run.cell.values()) for run in expand(CPUS, CLIENTS, seed=seed)] for seed in (7, 7, 8)]

    assert labels[0] == labels[1]
    assert labels[0] != labels[2]


@pytest.mark.parametrize(("order", "first"), [("as_given", "1 cpu"), ("descending", "2 cpus")])
def test_an_order_that_is_not_random_repeats_in_each_block(order: str, first: str) -> None:
    runs = expand(CPUS, repetitions=2, order=order)

    assert [run.cell["cpus"] for run in runs[:2]] == [run.cell["cpus"] for run in runs[2:]]
    assert runs[0].cell["cpus"] == first


def test_a_level_changes_its_paths_and_leaves_the_rest() -> None:
    run = next(run for run in expand(CPUS, CLIENTS) if run.cell == {"cpus": "2 cpus", "clients": "64"})

    assert run.spec["settings"] == {"postgresql": {"work_mem": "4MB"}, "cpu_affinity": {"server": "0,1"}}
    assert run.spec["steps"][0]["options"] == {"builtin": "select-only", "clients": 64, "time_s": 5}
    assert BASE["settings"] == {"postgresql": {"work_mem": "4MB"}}


@pytest.mark.parametrize(
    ("factors", "field"),
    [
        ([], "factors"),
        ([{"levels": []}], "factors.0.name"),
        ([{"name": "cpus", "levels": []}], "factors.0.levels"),
        ([{"name": "cpus", "levels": [{"set": {}}]}], "factors.0.levels.0.label"),
        ([{"name": "cpus", "levels": [{"label": "a", "set": {"target.bin_dir": "/x"}}]}], "factors.0.levels.0.set"),
        ([CPUS, CPUS], "factors"),
    ],
)
def test_a_design_that_is_none_is_refused_by_field(factors: list[Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan.read_factors(factors)

    assert refused.value.subject == field


def test_a_level_outside_the_catalogue_is_refused_before_anything_runs() -> None:
    typo = {"name": "cpus", "levels": [{"label": "1", "set": {"settings.cpu_afinity.server": "0"}}]}

    with pytest.raises(PlanError, match="cpu_afinity"):
        expand(typo)


def test_more_runs_than_a_campaign_may_have_are_refused() -> None:
    wide = {"name": "n", "levels": [{"label": str(n), "set": {"workload.clients": n}} for n in range(1, 41)]}

    with pytest.raises(PlanError, match="40000 runs"):
        expand(wide, repetitions=1000)


def test_every_metric_that_a_campaign_may_compare_is_known_to_the_statistics() -> None:
    known = {metric for metrics in plan.METRICS.values() for metric in metrics}

    assert known <= METRICS.keys()
    assert plan.METRICS.keys() == WORKLOADS.keys()


def test_a_metric_of_another_tool_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlanError, match="not measured by fio") as refused:
        plan.check_metric("fio", "tps")

    assert "iops" in refused.value.hint

"""The pure design of a campaign: from factors and a seed to ordered runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from apps.campaigns.design import plan, steps
from apps.campaigns.design.request import Arrangement
from apps.campaigns.design.steps import single
from common.errors import PlanError

BASE: dict[str, Any] = {
    "target": None,
    "settings": {"postgresql": {"work_mem": "4MB"}},
    "steps": single("pgbench", {"builtin": "select-only", "clients": 1, "time_s": 5}),
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
    return plan.expand(BASE, Arrangement(factors=list(factors), repetitions=repetitions, order=order, seed=seed))


def test_every_combination_runs_once_in_each_block() -> None:
    runs = expand(CPUS, CLIENTS, repetitions=4)

    counts = Counter((run.block, tuple(run.cell.items())) for run in runs)
    assert len(runs) == 2 * 3 * 4
    assert set(counts.values()) == {1}
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
        ([{"name": "cpus", "levels": [{"label": "a", "set": {"server.bin_dir": "/x"}}]}], "factors.0.levels.0.set"),
        ([CPUS, CPUS], "factors"),
    ],
)
def test_an_invalid_design_is_refused_by_field(factors: list[Any], field: str) -> None:
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


def test_a_path_of_the_workload_changes_every_step_that_has_it_and_one_of_a_step_only_that() -> None:
    base = {**BASE, "steps": [{**single("pgbench", {})[0], "name": name} for name in ("idx1", "idx2")]}
    level = plan.Level("8", {"workload.clients": 8, "steps.idx2.jobs": 2})

    spec = plan.resolve(base, [level])

    assert [step["options"] for step in spec["steps"]] == [{"clients": 8}, {"clients": 8, "jobs": 2}]


@pytest.mark.parametrize("path", ["workload.cleints", "steps.idx3.clients", "steps.measure"])
def test_a_path_that_no_step_has_is_refused_with_those_there_are(path: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan.resolve(BASE, [plan.Level("8", {path: 8})])

    assert refused.value.subject == path
    assert "clients" in refused.value.hint or "measure" in refused.value.hint


def test_a_metric_of_another_tool_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlanError, match="not measured by fio") as refused:
        steps.metric(single("fio", {}), "tps")

    assert "iops" in refused.value.hint


def test_a_metric_of_one_of_several_measured_steps_bears_its_name() -> None:
    several = [{**single("pgbench", {})[0], "name": name} for name in ("idx1", "idx2")]

    chosen = steps.metric(several, "idx2.latency_avg")

    assert chosen == steps.Metric("idx2", "latency_avg", "ms", "lower")
    with pytest.raises(PlanError, match="not measured"):
        steps.metric(several, "latency_avg")


def test_steps_that_warm_or_cool_are_no_candidates_for_a_metric() -> None:
    warmed = [{"name": "warm", "role": "warm", "kind": "pgbench", "options": {}}, *single("pgbench", {})]

    assert steps.metric(warmed, "tps").step == "measure"


def test_a_step_that_can_only_wait_is_not_measured() -> None:
    read = steps.read([{"name": "settle", "kind": "wait", "options": {}}, *single("sql", {"query": "select 1"})])

    assert [step["role"] for step in read] == ["cool", "measure"]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ([], "steps"),
        ({}, "steps"),
        ([{"name": "a"}], "steps.0"),
        ([{"name": "A b", "kind": "pgbench", "options": {}}], "steps.0.name"),
        ([{"name": "a", "kind": "dbench", "options": {}}], "steps.0.kind"),
        ([{"name": "a", "role": "heat", "kind": "pgbench", "options": {}}], "steps.0.role"),
        ([*single("pgbench", {}), *single("fio", {})], "steps"),
        ([{"name": "a", "role": "warm", "kind": "pgbench", "options": {}}], "steps"),
        ([{"name": "a", "role": "measure", "kind": "wait", "options": {}}, *single("pgbench", {})], "steps.0.role"),
    ],
)
def test_steps_that_are_none_are_refused_by_field(raw: Any, field: str) -> None:
    with pytest.raises(PlanError) as refused:
        steps.read(raw)

    assert refused.value.subject == field


def test_pgbench_steps_ask_for_data_of_their_scale_after_factors_have_set_it() -> None:
    scales = {"name": "scale", "levels": [{"label": str(n), "set": {"workload.scale": n}} for n in (1, 10)]}

    options = {run.cell["scale"]: run.spec["dataset"]["options"] for run in expand(scales)}

    assert options == {"1": {"scale": 1}, "10": {"scale": 10}}


def test_factors_change_the_data_set_of_a_campaign_and_its_scripts_get_the_scale() -> None:
    own = {"name": "accounts r1", "kind": "pgbench", "options": {"scale": 5}, "reset": "auto"}
    base = {**BASE, "steps": single("pgbench", {"script": "select :scale"}), "dataset": own}
    level = plan.Level("half full", {"dataset.fillfactor": 50, "dataset.scale": 7})

    spec = plan.resolve(base, [level])

    assert spec["dataset"] == {**own, "options": {"scale": 7, "fillfactor": 50}}
    assert spec["steps"][0]["options"]["scale"] == 7 and own["options"] == {"scale": 5}


def test_a_workload_that_works_on_one_kind_of_data_gets_its_default_which_factors_change() -> None:
    base = {**BASE, "steps": single("tpcc", {"calls": "functions"})}

    spec = plan.resolve(base, [plan.Level("4", {"dataset.warehouses": 4})])

    assert (spec["dataset"]["kind"], spec["dataset"]["options"]) == ("tpcc", {"warehouses": 4})


def test_another_kind_of_data_than_a_step_works_on_is_refused_by_name() -> None:
    own = {"name": "accounts r1", "kind": "pgbench", "options": {}, "reset": "auto"}

    with pytest.raises(PlanError) as refused:
        plan.resolve({**BASE, "steps": single("tpcc", {}), "dataset": own}, [])

    assert (refused.value.subject, refused.value.message) == ("dataset", "accounts r1 is of kind pgbench")
    assert refused.value.hint == "step measure requires kind tpcc: choose such a data set, or none for the default"


@pytest.mark.parametrize(
    ("changes", "values", "field"),
    [
        ({"steps": [*single("pgbench", {"scale": 1}), *single("pgbench", {"scale": 2})]}, {}, "steps"),
        ({"steps": single("fio", {"directory": "/x"})}, {"dataset.scale": 2}, "dataset.scale"),
        ({"dataset": {"kind": "pgbench", "options": {}}}, {"workload.scale": 2}, "workload.scale"),
    ],
)
def test_implausible_data_are_refused(changes: dict[str, Any], values: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan.resolve({**BASE, **changes}, [plan.Level("x", values)])

    assert refused.value.subject == field

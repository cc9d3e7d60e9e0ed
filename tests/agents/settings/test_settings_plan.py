"""Plans as data: facts and requests in; writes, prefixes, configuration or a refusal out (cases/*.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Unplannable
from agents.postgres import roles
from agents.run import remote_server
from agents.run.planning import check_spec, check_together, plan_settings, plan_target
from agents.settings import SETTINGS

CASES = Path(__file__).parents[1] / "cases"
FACTS = json.loads((CASES / "facts.json").read_text())
PLACE = {"bin_dir": "/pg/bin", "data_dir": "/srv", "os_user": "postgres"}
PRIVATE = {"kind": "private", **PLACE}
EXISTING = {
    **PLACE,
    "kind": "existing",
    "config_file": "/srv/postgresql.conf",
    "port": 5432,
    "unit": "",
    "include": "",
    "consent": {"restart": True, "disturb_clients": True},
}


def cases() -> Iterator[Any]:
    for name in SETTINGS:
        for case in json.loads((CASES / f"{name}.json").read_text()):
            yield pytest.param(name, case, id=f"{name}: {case['name']}")


@pytest.mark.parametrize(("name", "case"), list(cases()))
def test_every_case_gives_its_plan_or_refusal(name: str, case: dict[str, Any]) -> None:
    facts = {**FACTS, **case.get("facts", {})}

    if "error" in case:
        with pytest.raises(Unplannable) as refused:
            plan_settings(facts, {name: case["wanted"]})
        refusal = {"field": refused.value.field, "accepted": refused.value.accepted, "hint": refused.value.hint}
        assert refusal == {**refusal, **case["error"]}
        return

    plan = plan_settings(facts, {name: case["wanted"]})[name]
    assert [[write.key, write.wanted] for write in plan.writes] == case.get("writes", [])
    assert [write.also for write in plan.writes] == case.get("also", [write.also for write in plan.writes])
    assert [list(write.resets) for write in plan.writes] == case.get("resets", [list(w.resets) for w in plan.writes])
    assert [[hold.path, hold.data.hex()] for hold in plan.holds] == case.get("holds", [])
    assert [list(limit) for limit in plan.limits] == case.get("limits", [])
    assert plan.server_prefix == case.get("server_prefix", [])
    assert plan.client_prefix == case.get("client_prefix", [])
    assert plan.tracer_prefix == case.get("tracer_prefix", [])
    assert plan.unit == case.get("unit", plan.unit)
    assert plan.conf == case.get("conf", {})
    assert plan.initdb == case.get("initdb", {})
    assert plan.lines() == case.get("lines", plan.lines())


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Unplannable, match="cpu_affinity, numa"):
        plan_settings(FACTS, {"swappiness": 1})


def test_two_settings_cannot_set_one_parameter() -> None:
    from agents.settings.base import Plan

    class Second(type(SETTINGS["huge_pages"])):  # type: ignore[misc]
        def plan(self, facts: Any, requested: Any) -> Plan:
            return Plan(conf={"work_mem": "1MB"})

    original = SETTINGS["huge_pages"]
    SETTINGS["huge_pages"] = Second()
    try:
        with pytest.raises(Unplannable, match="huge_pages already sets it"):
            plan_settings(FACTS, {"postgresql": {"work_mem": "2MB"}, "huge_pages": {"use": "off"}})
    finally:
        SETTINGS["huge_pages"] = original


def test_postgresqls_cpus_are_chosen_by_one_setting_only() -> None:
    with pytest.raises(Unplannable, match="either numa or cpu_affinity: both choose PostgreSQL's cpus"):
        plan_settings(FACTS, {"cpu_affinity": {"server": "0"}, "numa": {"cpunodebind": "1"}})

    plan_settings(FACTS, {"cpu_affinity": {"client": "0"}, "numa": {"cpunodebind": "1"}})
    plan_settings(FACTS, {"cpu_affinity": {"server": "0"}, "numa": {"policy": "localalloc"}})


def together(settings: dict[str, Any]) -> None:
    check_together(settings, plan_settings(FACTS, settings))


def test_memory_for_postgresql_is_compared_with_its_shared_buffers() -> None:
    limited = {"cgroup": {"memory_max": "1GB"}}
    with pytest.raises(Unplannable, match="at least 1056MB: shared_buffers is 1GB, and its processes need 32MB"):
        together({**limited, "postgresql": {"shared_buffers": "1GB"}})
    with pytest.raises(Unplannable, match="at least 160MB: shared_buffers is 128MB"):
        together({"cgroup": {"memory_high": "128MB"}})

    together({**limited, "postgresql": {"shared_buffers": "512MB"}})
    # Huge pages are not counted for a group.
    together({**limited, "postgresql": {"shared_buffers": "1GB"}, "huge_pages": {"use": "on"}})


def test_a_control_group_and_another_setting_do_not_both_choose_cpus_or_nodes() -> None:
    with pytest.raises(Unplannable, match="either this or cpu_affinity: both choose PostgreSQL's CPUs"):
        together({"cgroup": {"cpuset_cpus": "0-1"}, "cpu_affinity": {"server": "0"}})
    with pytest.raises(Unplannable, match="either this or numa: both choose PostgreSQL's memory nodes"):
        together({"cgroup": {"cpuset_mems": "0"}, "numa": {"policy": "membind", "nodes": "0"}})

    together({"cgroup": {"cpuset_cpus": "0-1"}, "cpu_affinity": {"client": "2"}})


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"cpu_affinity": {"server": "0-4"}}, "cpu_affinity.server"),
        ({"cpu_affinity": {"client": "4"}}, "cpu_affinity.client"),
        ({"cgroup": {"cpuset_cpus": "3-4"}}, "cgroup.cpuset_cpus"),
    ],
)
def test_without_smt_no_list_names_a_sibling_that_goes_offline(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(Unplannable) as refused:
        plan_settings(FACTS, {"smt": {"control": "off"}, **settings})

    assert (refused.value.field, refused.value.accepted) == (field, "CPUs that are online: 0-3")
    assert refused.value.hint == "CPU 4 goes offline with smt.control off in the same run"
    plan_settings(FACTS, {"smt": {"control": "on"}, **settings})


def test_without_smt_the_cpus_of_nodes_and_cores_are_those_that_are_left() -> None:
    off = {"smt": {"control": "off"}}

    by_node = plan_settings(FACTS, {**off, "cpu_affinity": {"server": "node:1"}})["cpu_affinity"]
    by_core = plan_settings(FACTS, {**off, "cpu_affinity": {"server": "cores"}})["cpu_affinity"]
    with pytest.raises(Unplannable, match=r"0\.01 to 4 CPUs"):
        plan_settings(FACTS, {**off, "cgroup": {"cpu_max": 5}})

    assert (by_node.server_prefix[-1], by_core.server_prefix[-1]) == ("0,2", "0-3")


def test_without_smt_only_the_cpus_that_are_left_get_a_governor() -> None:
    plans = plan_settings(FACTS, {"smt": {"control": "off"}, "cpu_power": {"governor": "performance"}})

    cpus = [write.key.split("/")[5] for write in plans["cpu_power"].writes]
    assert cpus == ["cpu0", "cpu1", "cpu2", "cpu3"]


def test_a_control_group_is_for_clusters_of_the_run_only() -> None:
    spec = run({"cgroup": {"cpu_max": 1}})
    plans = plan_settings(FACTS, spec["settings"])

    with pytest.raises(Unplannable, match="a target, because it applies to PostgreSQL"):
        check_spec(FACTS, spec)
    with pytest.raises(Unplannable, match="the control group of an existing cluster belongs to its administrator"):
        plan_target(FACTS, {**spec, "target": EXISTING}, plans)
    with pytest.raises(Unplannable, match="it applies only to the server's host"):
        roles.check({**spec, "target": {"kind": "remote"}}, plans)
    with pytest.raises(Unplannable, match="only SQL reaches this server's machine"):
        remote_server.check(spec, plans)

    check_spec(FACTS, {**spec, "target": PRIVATE})


def run(settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A spec of one step of fio, without PostgreSQL."""
    step = {"name": "io", "kind": "fio", "options": {"rw": "read", "directory": "/srv"}}
    collect = {"interval_s": 1, "sources": []}
    spec = {"version": 1, "target": None, "settings": settings, "steps": [step], "collect": collect}
    return {**spec, "allowed_paths": [{"kind": "directory", "path": "/srv"}], **more}


def test_a_tracer_is_pinned_only_where_a_step_starts_one() -> None:
    run_spec = run({"cpu_affinity": {"tracer": "3"}})
    with pytest.raises(Unplannable, match="no step of this run starts a tracer"):
        check_spec(FACTS, run_spec)

    query = {"query": "select 1", "tracer": {"tool": "strace"}}
    check_spec(FACTS, {**run_spec, "target": PRIVATE, "steps": [{"name": "q", "kind": "sql", "options": query}]})


def test_a_tracer_may_be_where_postgresql_is() -> None:
    plan = SETTINGS["cpu_affinity"].plan(FACTS, {"server": "2", "tracer": "server"})

    assert plan.tracer_prefix == plan.server_prefix == ["taskset", "-c", "2"]
    with pytest.raises(Unplannable, match="a list of CPUs, because PostgreSQL has none"):
        SETTINGS["cpu_affinity"].plan(FACTS, {"tracer": "server"})


def test_relations_are_loaded_only_where_there_is_a_server() -> None:
    check_spec(FACTS, run({"cache": {"state": "cold"}}))

    with pytest.raises(Unplannable, match="a target, because it applies to PostgreSQL"):
        check_spec(FACTS, run({"cache": {"state": "warm"}}))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
def test_every_setting_describes_itself(setting: Any) -> None:
    assert setting.title and setting.unit is not None and setting.risk and setting.level in ("user", "root")
    assert "\n" not in setting.help
    assert setting.schema["type"] == "object" and "additionalProperties" in setting.schema

"""Plans as data: facts and wanted in, writes, prefixes, configuration or a refusal out (cases/*.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Unplannable
from agents.planning import plan_settings
from agents.settings import SETTINGS

CASES = Path(__file__).parent / "cases"
FACTS = json.loads((CASES / "facts.json").read_text())


def cases() -> Iterator[Any]:
    for name in SETTINGS:
        for case in json.loads((CASES / f"{name}.json").read_text()):
            yield pytest.param(name, case, id=f"{name}: {case['name']}")


@pytest.mark.parametrize(("name", "case"), list(cases()))
def test_plan(name: str, case: dict[str, Any]) -> None:
    facts = {**FACTS, **case.get("facts", {})}

    if "error" in case:
        with pytest.raises(Unplannable) as refused:
            plan_settings(facts, {name: case["wanted"]})
        found = {"field": refused.value.field, "accepted": refused.value.accepted, "hint": refused.value.hint}
        assert found == {**found, **case["error"]}
        return

    plan = plan_settings(facts, {name: case["wanted"]})[name]
    assert [[write.key, write.wanted] for write in plan.writes] == case.get("writes", [])
    assert [write.also for write in plan.writes] == case.get("also", [write.also for write in plan.writes])
    assert [list(write.resets) for write in plan.writes] == case.get("resets", [list(w.resets) for w in plan.writes])
    assert [[hold.path, hold.data.hex()] for hold in plan.holds] == case.get("holds", [])
    assert plan.server_prefix == case.get("server_prefix", [])
    assert plan.client_prefix == case.get("client_prefix", [])
    assert plan.tracer_prefix == case.get("tracer_prefix", [])
    assert plan.unit == case.get("unit", plan.unit)
    assert plan.conf == case.get("conf", {})
    assert plan.lines() == case.get("lines", plan.lines())


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Unplannable, match="cpu_affinity, numa"):
        plan_settings(FACTS, {"swappiness": 1})


def test_two_settings_cannot_set_one_parameter() -> None:
    from agents.settings.base import Plan

    class Second(type(SETTINGS["huge_pages"])):  # type: ignore[misc]
        def plan(self, facts: Any, wanted: Any) -> Plan:
            return Plan(conf={"work_mem": "1MB"})

    original = SETTINGS["huge_pages"]
    SETTINGS["huge_pages"] = Second()
    try:
        with pytest.raises(Unplannable, match="huge_pages sets it already"):
            plan_settings(FACTS, {"postgresql": {"work_mem": "2MB"}, "huge_pages": {"use": "off"}})
    finally:
        SETTINGS["huge_pages"] = original


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
def test_every_setting_describes_itself(setting: Any) -> None:
    assert setting.title and setting.unit is not None and setting.risk and setting.level in ("user", "root")
    assert "\n" not in setting.help
    assert setting.schema["type"] == "object" and "additionalProperties" in setting.schema

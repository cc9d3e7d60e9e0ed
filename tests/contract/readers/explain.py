"""EXPLAIN: text, JSON, YAML, XML, and what psql says instead of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.explain.output import parse_explain, parse_psql_error
from readers.explain.plan import Plan


def plans_values(raw: bytes) -> dict[str, Any]:
    return {"plans": [plan_values(plan) for plan in parse_explain(raw).plans]}


def plan_values(plan: Plan) -> dict[str, Any]:
    root = asdict(plan.root)
    return root | {
        "node": plan.root.label,
        "cost": [plan.root.startup_cost, plan.root.total_cost],
        "width": plan.root.plan_width_bytes,
        "actual_time_ms": [plan.root.actual_startup_ms, plan.root.actual_total_ms],
        "shared_hit": plan.root.buffers.shared_hit if plan.root.buffers else None,
        "shared_read": plan.root.buffers.shared_read if plan.root.buffers else None,
        "planning_ms": plan.planning_ms,
        "execution_ms": plan.execution_ms,
        "total_runtime_ms": plan.total_runtime_ms,
    }


def one_plan_values(raw: bytes) -> dict[str, Any]:
    (plan,) = parse_explain(raw).plans
    return plan_values(plan)


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "explain_text": plans_values,
    "explain_json": plans_values,
    "explain_yaml": one_plan_values,
    "explain_xml": one_plan_values,
    "explain_error": lambda raw: {"error": parse_psql_error(raw).error},
}

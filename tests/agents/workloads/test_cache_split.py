"""A cache experiment as one workload: look-ups, a scan, look-ups again, and the blocks that each step read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from readers.measure import measure
from tests.agents.driver import OK, Connection, of

ROWS = 4000
TABLE = f"""
create extension if not exists pg_prewarm;
drop table if exists split;
create table split as select g as id, repeat('x', 800) as filler from generate_series(1, {ROWS}) g;
create unique index split_id on split (id);
vacuum analyze split;
"""
LOOKUP = f"\\set id random(1, {ROWS})\nselect filler from split where id = :id;"


def lookups(name: str, role: str = "measure") -> dict[str, Any]:
    options = {"script": LOOKUP, "transactions": 100, "mode": "prepared"}
    return {"name": name, "role": role, "kind": "pgbench", "options": options}


def sql(name: str, role: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "kind": "sql", "options": options}


STEPS = [
    sql("table", "prepare", statements=TABLE),
    sql("cached", "warm", statements="select pg_prewarm('split'), pg_prewarm('split_id')"),
    lookups("warm", "warm"),
    sql("reset", "warm", statements="select pg_stat_reset_single_table_counters('split'::regclass)"),
    lookups("idx1"),
    sql("seq", "measure", query="select count(filler) from split", times=1, explain=False),
    lookups("idx2"),
    {"name": "settle", "role": "cool", "kind": "wait", "options": {"seconds": 1}},
]


def blocks(agent: Connection, run: str, step: str) -> dict[str, float]:
    """All blocks of the table that the step has read."""
    totals = json.loads(agent.file(run, f"out/{step}/postgresql.json"))
    return next((row for row in totals["tables"] if row["table"].endswith("split")), {})


def test_index_lookups_before_and_after_a_scan_are_measured_separately(
    agent: Connection, spec: Callable[..., dict[str, Any]]
) -> None:
    run_spec = spec({"postgresql": {"shared_buffers": "32MB", "autovacuum": "off"}})
    run_spec |= {"steps": STEPS, "collect": {"interval_s": 1, "sources": ["cpu", "postgresql"]}}

    run = agent.submit(run_spec)
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    assert [data["step"] for data in of(events, "measured")] == [step["name"] for step in STEPS]
    idx1, seq, idx2 = (blocks(agent, run, step) for step in ("idx1", "seq", "idx2"))
    for each in (idx1, idx2):
        assert each["heap_blks_hit"] == 100 and each["idx_blks_hit"] >= 200
        assert "heap_blks_read" not in each, "all of it was loaded"
    assert seq["heap_blks_hit"] > ROWS * 800 / 8192 and seq.get("idx_blks_hit", 0) < 5  # the planner looks
    for step in (step for step in STEPS if step["role"] == "measure"):
        outputs = {name: agent.file(run, f"out/{step['name']}/{name}") for name in ("stdout", "stderr")}
        figures = {one.name: one.value for one in measure(step["kind"], outputs, step["options"])}
        assert figures["latency_avg" if step["kind"] == "pgbench" else "elapsed_total"] > 0

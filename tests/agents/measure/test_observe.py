"""Collectors before, during and after a real load, their cost, and missing sources."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.collectors import COLLECTORS, NotAvailable, Subject
from agents.collectors.over_sql import pg_stat, postgresql
from agents.collectors.over_sql.postgresql import PostgreSQL, flatten
from agents.collectors.over_sql.psql import Psql
from agents.host.system import System
from agents.records.processes import Child
from tests.agents.conftest import postgres_processes
from tests.agents.driver import OK, Connection, of

Spec = Callable[..., dict[str, Any]]


@pytest.fixture
def observed(agent: Connection, spec: Spec) -> tuple[Connection, str, list[dict[str, Any]]]:
    """(agent, run, events) of a load of 3 s with all collectors."""
    order = spec({"postgresql": {"shared_preload_libraries": "pg_stat_statements"}}, builtin="tpcb-like", time_s=3)
    order["collect"] = {"interval_s": 1, "sources": list(COLLECTORS)}
    run = agent.submit(order)
    return agent, run, agent.events(run)


def test_samples_surround_the_load_and_each_collector_reports_its_cost(
    observed: tuple[Connection, str, list[dict[str, Any]]], data_dir: Path
) -> None:
    agent, run, events = observed

    assert of(events, "outcome") == [OK]
    times = [sample["t"] for sample in of(events, "sample", source="memory")]
    assert times[0] == 0.0 and times[-1] >= 3.0 and len(times) >= 4
    first, later = (of(events, "sample", source="cpu")[place]["values"] for place in (0, 1))
    assert "procs_running" in first and "busy" not in first and "busy" in later

    (measured,) = of(events, "measured")
    assert measured["ended"] - measured["began"] == pytest.approx(times[-1], abs=0.001)
    silent = {entry["message"].split()[1] for entry in of(events, "log") if "is not available" in entry["message"]}
    usual = {name for name, each in COLLECTORS.items() if not each.needs_group and not each.needs_tcp}
    assert set(measured["costs"]) == usual - silent | {"proofs"}
    assert all(cost["samples"] >= 3 and cost["cpu_s"] > 0 for cost in measured["costs"].values())
    assert measured["costs"]["postgresql"]["apart_s"] > 0
    spent = sum(cost["cpu_s"] + cost["apart_s"] for cost in measured["costs"].values())
    assert agent.manifest(run)[0]["timings"]["collector_cpu_s"] == pytest.approx(spent, abs=0.001)
    assert not postgres_processes(data_dir)


@pytest.mark.parametrize("name", ["pg_stat_database.xact_commit", "pg_stat_wal.wal_bytes"])
def test_rates_of_postgresql_begin_when_its_statistics_arrive_and_not_at_zero(
    observed: tuple[Connection, str, list[dict[str, Any]]], name: str
) -> None:
    *_, events = observed

    values = [sample["values"].get(name) for sample in of(events, "sample", source="postgresql")]

    rates = [value for value in values if value is not None]
    assert rates and rates[0] > 0.2 * max(rates), values


def test_the_collector_postgresql_counts_the_transactions_of_pgbench(
    observed: tuple[Connection, str, list[dict[str, Any]]],
) -> None:
    agent, run, events = observed

    totals = json.loads(agent.file(run, "out/measure/postgresql.json"))

    done = int(re.findall(rb"transactions actually processed: (\d+)", agent.file(run, "out/measure/stdout"))[0])
    # Beside the load: our own looks, and what pgbench asks before it begins.
    assert done <= totals["views"]["pg_stat_database.xact_commit"] <= done + 40
    assert {"public.pgbench_accounts", "public.pgbench_history"} <= {row["table"] for row in totals["tables"]}
    assert max(row["calls"] for row in totals["statements"]) == done
    assert all("pg_stat_activity" not in row["query"] for row in totals["statements"])
    waits = [name for sample in of(events, "sample", source="postgresql") for name in sample["values"]]
    assert any(name.startswith("wait.") for name in waits)
    errors = {file["path"]: file["size"] for file in agent.manifest(run)[0]["files"] if "session" in file["path"]}
    assert errors == {"out/session.stderr": 0}


def test_checkpoints_are_read_from_the_server_log_with_the_time_of_each_line(
    observed: tuple[Connection, str, list[dict[str, Any]]],
) -> None:
    agent, run, events = observed

    log = agent.file(run, "out/postgresql.log").decode()

    starts = [float(at) for at in re.findall(r"^([0-9.]+) \[\d+\] LOG:  checkpoint starting", log, re.MULTILINE)]
    assert starts and min(starts) > events[0]["wall"] - 1 and max(starts) < events[-1]["wall"] + 1


def silent_child(*argv: str) -> Child:
    popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return Child(popen, {"purpose": "statistics"})


def test_a_server_that_does_not_answer_costs_a_sample_and_no_more() -> None:
    psql = Psql(System(), silent_child("sleep", "60"))

    began = time.monotonic()
    psql.ask("execute sample;")
    assert psql.answer(0.1) is None
    assert time.monotonic() - began < 20

    psql.close()
    assert System().process(psql.pid) is None


def test_an_answer_may_come_in_pieces_and_late() -> None:
    psql = Psql(System(), silent_child("sh", "-c", "printf '{\"a\"'; sleep 0.3; printf ': 1}\\n{\"a\": 2}\\n'; cat"))

    assert psql.answer(0.05) is None
    assert [psql.answer(10), psql.answer(10)] == [{"a": 1}, {"a": 2}]
    psql.close()


def test_a_psql_that_ended_is_reported_and_not_waited_for() -> None:
    psql = Psql(System(), silent_child("true"))

    with pytest.raises(NotAvailable, match="psql has ended"):
        psql.need("select 1;", 10)
    psql.close()


def test_a_collector_that_cannot_connect_gives_up_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "CONNECT_S", 0.2)
    child = silent_child("sleep", "60")
    psql = Psql(System(), child)
    cluster: Any = SimpleNamespace(major=16, may_install=False, connect=lambda: psql, disconnect=psql.close)

    with pytest.raises(NotAvailable, match=r"did not answer within 0\.2 s"):
        PostgreSQL(System(), Subject(Path("/"), cluster)).start()
    assert child.popen.poll() is not None


def test_postgresql_9_is_too_old() -> None:
    cluster: Any = SimpleNamespace(major=9, version="9.6.24")

    with pytest.raises(NotAvailable, match=r"9\.6\.24 has too few statistics views; 10 or later is needed"):
        PostgreSQL(System(), Subject(Path("/"), cluster)).start()


@pytest.mark.parametrize(
    ("major", "views"),
    [
        (10, {"pg_stat_database", "pg_stat_bgwriter"}),
        (14, {"pg_stat_database", "pg_stat_bgwriter", "pg_stat_wal"}),
        (16, {"pg_stat_database", "pg_stat_bgwriter", "pg_stat_wal", "pg_stat_io"}),
        (18, {"pg_stat_database", "pg_stat_bgwriter", "pg_stat_wal", "pg_stat_io", "pg_stat_checkpointer"}),
    ],
)
def test_each_version_is_queried_for_the_views_that_it_has(major: int, views: set[str]) -> None:
    assert set(re.findall(r"'(pg_stat_\w+)'", pg_stat.statement(major))) == views


def test_numbers_of_views_are_flattened_and_other_values_are_dropped() -> None:
    views = {
        "at": 1.0,
        "wait": {"IO:WALSync": 2},
        "pg_stat_wal": {"wal_bytes": 10, "stats_reset": "2026-11-21", "on": True},
        "pg_stat_io": {"client backend": {"who": "client backend", "reads": 3, "read_time": None}},
        "pg_stat_checkpointer": None,
    }

    assert flatten(views) == {"pg_stat_wal.wal_bytes": 10.0, "pg_stat_io.client backend.reads": 3.0}

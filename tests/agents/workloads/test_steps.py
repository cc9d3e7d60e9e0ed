"""Steps other than pgbench and fio, with a real agent and a real PostgreSQL."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.workloads import WORKLOADS
from readers.measure import measure
from tests.agents.conftest import postgres_processes
from tests.agents.driver import OK, Connection, of

Spec = Callable[..., dict[str, Any]]
Steps = Callable[..., dict[str, Any]]


@pytest.fixture
def steps(spec: Spec) -> Steps:
    """A spec of steps given as (name, kind, options)."""

    def steps(*definitions: tuple[str, str, dict[str, Any]], settings: dict[str, Any] | None = None) -> dict[str, Any]:
        made = [
            {"name": name, "role": "measure", "kind": kind, "options": options} for name, kind, options in definitions
        ]
        return {**spec(settings), "steps": made}

    return steps


def figures(
    agent: Connection, run: str, kind: str, options: dict[str, Any], files: Sequence[str] = ("stdout", "stderr")
) -> dict[str, Any]:
    """The measurements of the step `measure`, as the server will read them."""
    outputs = {name: agent.file(run, f"out/measure/{name}") for name in files}
    return {one.name: one for one in measure(kind, outputs, options)}


TABLE = (
    "drop table if exists t; create table t as select g as id, repeat('x', 500) as pad from generate_series(1, 2000) g"
)


@pytest.mark.fast
def test_a_query_is_explained_the_configured_number_of_times_in_one_session(agent: Connection, steps: Steps) -> None:
    query = {"query": "select count(*) from t where id > -1;", "times": 4, "before": "set work_mem = '64kB'; select 1"}

    run = agent.submit(steps(("make", "sql", {"statements": TABLE}), ("measure", "sql", query)))
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    measured = figures(agent, run, "sql", query)
    assert measured["executions"].value == 4
    assert 0 < measured["execution_min"].value <= measured["execution_mean"].value <= measured["execution_max"].value
    assert measured["execution_total"].value == pytest.approx(4 * measured["execution_mean"].value)
    assert measured["shared_hit_mean"].value + measured["shared_read_mean"].value >= 2000 * 500 / 8192
    assert (measured["plan_shapes"].value, measured["plan_shapes"].definition) == (1, "the plan never changed")
    assert b'"work_mem": "64kB"' in agent.file(run, "out/measure/stdout")
    samples = of(events, "sample", source="sql", step="measure")
    assert len(samples) == 4 and samples == sorted(samples, key=lambda each: each["t"])
    assert samples[0]["values"].keys() == {"execution_ms", "planning_ms", "shared_hit", "shared_read"}


def test_a_query_that_is_not_explained_is_timed_with_its_rows_thrown_away(agent: Connection, steps: Steps) -> None:
    query = {"query": "select g, pg_sleep(0.05) from generate_series(1, 2) g", "times": 3, "explain": False}

    run = agent.submit(steps(("measure", "sql", query)))
    events = agent.events(run)

    measured = figures(agent, run, "sql", query)
    assert 100 < measured["elapsed_min"].value <= measured["elapsed_mean"].value < 5000
    assert b"|" not in agent.file(run, "out/measure/stdout")
    assert len(of(events, "sample", source="sql")) == 3


def test_a_plan_change_is_reported_with_its_execution(agent: Connection, steps: Steps) -> None:
    """A prepared statement is planned for its parameter five times; then one plan for all of them seems cheaper."""
    table = f"{TABLE}; create index on t (id); vacuum analyze t"
    prepared = "prepare q(int) as select count(pad) from t where id < $1"
    query = {"query": "execute q(5000)", "times": 7, "before": prepared}

    run = agent.submit(steps(("make", "sql", {"statements": table}), ("measure", "sql", query)))

    agent.events(run)
    shapes = figures(agent, run, "sql", query)["plan_shapes"]
    assert shapes.value == 2
    assert shapes.definition.startswith("execution 6 of 7: Seq Scan on t -> Index Scan")


def test_samples_come_while_the_query_still_runs(agent: Connection, steps: Steps) -> None:
    query = {"query": "select pg_sleep(0.6)", "times": 4}

    run = agent.submit(steps(("measure", "sql", query)))
    events = agent.events(run)

    came = [event["mono"] for event in events if event["kind"] == "sample" and event["data"]["source"] == "sql"]
    assert came[-1] - came[0] > 0.6


@pytest.mark.parametrize("shell", ["\\! touch {file}", "select 1 \\g |touch {file}", "select 1; \\! touch {file}"])
def test_no_user_input_becomes_a_command_of_psql(agent: Connection, steps: Steps, tmp_path: Path, shell: str) -> None:
    tmp_path.chmod(0o1777)
    typed = shell.format(file=tmp_path / "touched")

    run = agent.submit(steps(("measure", "sql", {"statements": typed})))

    (outcome,) = of(agent.events(run), "outcome")
    assert outcome["outcome"] == "failed" and "syntax error" in outcome["error"]["stderr"]
    assert not (tmp_path / "touched").exists()


def test_a_statement_that_times_out_ends_the_run_with_the_message_of_the_server(
    agent: Connection, steps: Steps
) -> None:
    run = agent.submit(steps(("measure", "sql", {"query": "select pg_sleep(60)", "timeout_s": 0.2})))

    (outcome,) = of(agent.events(run), "outcome")

    assert outcome["error"]["blame"] == "workload"
    assert "canceling statement due to statement timeout" in outcome["error"]["stderr"]


def test_cancel_does_not_wait_for_the_query(agent: Connection, steps: Steps, data_dir: Path) -> None:
    run = agent.submit(steps(("measure", "sql", {"query": "select pg_sleep(600)", "times": 1})))
    agent.events(run, until="RUNNING")
    time.sleep(0.5)

    began = time.monotonic()
    agent.call("cancel", run=run)
    events = agent.events(run)

    assert time.monotonic() - began < 60
    assert of(events, "outcome") == [{"outcome": "cancelled", "error": None}]
    assert agent.call("status", run=run)["clean"] is True


@pytest.mark.fast
def test_collectors_sample_while_a_step_waits(agent: Connection, steps: Steps) -> None:
    run = agent.submit(steps(("settle", "wait", {"seconds": 1.5})))

    events = agent.events(run)

    (measured,) = of(events, "measured", step="settle")
    assert 1.5 <= measured["ended"] - measured["began"] < 15
    assert len(of(events, "sample", source="cpu", step="settle")) >= 2


READS = "drop table if exists big; create table big as select repeat('x', 400) from generate_series(1, 20000)"
# The table does not fit, so that each block is asked of the kernel, and by the backend itself: 18 has workers for that.
SMALL = {"postgresql": {"shared_buffers": "1MB", "io_method": "sync", "autovacuum": "off"}}
SCAN = {"query": "select count(*) from big", "times": 2, "before": "set max_parallel_workers_per_gather = 0"}
CALLS = ["pread64", "preadv"]


def traced(timed: bool, **options: Any) -> Any:
    """A parameter: the options of a tracer, and whether it measures times."""
    return pytest.param(options, timed, marks=pytest.mark.needs(options["tool"]))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("tracer", "timed"),
    [
        traced(True, tool="strace", syscalls=CALLS),
        traced(True, tool="strace", syscalls=CALLS, backends="server"),
        traced(True, tool="perf", syscalls=CALLS),
        traced(False, tool="perf", events=["syscalls:sys_enter_pread64", "syscalls:sys_enter_preadv"]),
        traced(True, tool="bpftrace", syscalls=CALLS),
    ],
    ids=["strace", "strace-server", "perf-trace", "perf-stat", "bpftrace"],
)
def test_a_tracer_counts_the_reads_of_the_queries_and_nothing_else(
    agent: Connection, steps: Steps, tracer: dict[str, Any], timed: bool
) -> None:
    query = {**SCAN, "tracer": tracer}

    run = agent.submit(steps(("make", "sql", {"statements": READS}), ("measure", "sql", query), settings=SMALL))

    (outcome,) = of(agent.events(run), "outcome")
    assert outcome == OK
    measured = figures(agent, run, "sql", query, files=("stdout", "stderr", "tracer.txt"))
    read = 2 * measured["shared_read_mean"].value
    # 18 reads up to 16 blocks by one call.
    assert read / 16 <= measured["tracer events"].value <= 1.2 * read
    assert ("tracer ns per event" in measured) == timed
    if timed:
        assert 100 < measured["tracer ns per event"].value < 10_000_000


OLTP = {"tables": 2, "table_size": 500}


@pytest.mark.fast
@pytest.mark.needs("sysbench")
def test_sysbench_creates_its_tables_again_and_runs_its_test(agent: Connection, steps: Steps) -> None:
    run_options = {**OLTP, "test": "oltp_read_write", "threads": 2, "time_s": 3, "histogram": True, "percentile": 99}
    run_spec = steps(
        ("make", "sysbench", {**OLTP, "action": "prepare"}),
        ("again", "sysbench", {**OLTP, "action": "prepare", "threads": 2}),
        ("measure", "sysbench", run_options),
    )

    run = agent.submit(run_spec)
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    measured = figures(agent, run, "sysbench", run_options)
    assert measured["tps"].value > 10 and measured["qps"].value == pytest.approx(20 * measured["tps"].value, rel=0.05)
    # One stall lifts the mean over the 99th percentile, so each is held to the maximum alone.
    assert 0 < measured["latency_avg"].value <= measured["latency_max"].value
    assert 0 < measured["latency_p99"].value <= measured["latency_max"].value
    assert measured.keys() - {"transactions"} <= WORKLOADS["sysbench"].figures(run_options).keys()
    assert measured["tps"].definition.endswith("closed loop") and "tpmC" not in measured
    samples = of(events, "sample", source="sysbench", step="measure")
    assert [round(sample["t"]) for sample in samples][:2] == [1, 2]
    assert samples[0]["values"].keys() == WORKLOADS["sysbench"].samples["sysbench"].keys()
    assert of(events, "sample", source="cpu", step="again")


OWN = """
local common = require("own_common")
sysbench.cmdline.options = {scale = {"Scale", 1}}
function thread_init()
  con = sysbench.sql.driver():connect()
end
function event()
  con:query("select " .. common.number .. " + " .. sysbench.opt.scale)
end
"""


@pytest.mark.needs("sysbench")
def test_a_script_of_an_allowed_directory_runs_there_and_reports_tpmc(
    agent: Connection, steps: Steps, data_dir: Path
) -> None:
    own = data_dir / "lua"
    own.mkdir(mode=0o755, exist_ok=True)
    (own / "own.lua").write_text(OWN)
    (own / "own_common.lua").write_text("return {number = 41}")
    options = {"directory": str(own), "script": "own.lua", "time_s": 1, "more": {"scale": 2}, "new_order_percent": 45}
    spec = {**steps(("measure", "sysbench", options)), "allowed_paths": [{"kind": "directory", "path": str(data_dir)}]}

    run = agent.submit(spec)

    assert of(agent.events(run), "outcome") == [OK]
    measured = figures(agent, run, "sysbench", options)
    assert measured["tpmC"].value == pytest.approx(27 * measured["tps"].value)
    assert measured["tpmC"].definition.startswith("60 x tps x 45 %, what the script counts as new orders")


@pytest.mark.needs("strace", "sysbench")
def test_a_tracer_finds_the_backends_of_pgbench_and_of_sysbench(agent: Connection, steps: Steps) -> None:
    tracer = {"tool": "strace", "syscalls": ["recvfrom", "sendto"]}
    load = {"builtin": "select-only", "clients": 2, "time_s": 3, "tracer": tracer}
    oltp = {**OLTP, "test": "oltp_point_select", "threads": 2, "time_s": 3, "tracer": tracer}
    make = {**OLTP, "action": "prepare"}

    run = agent.submit(steps(("pgbench", "pgbench", load), ("make", "sysbench", make), ("oltp", "sysbench", oltp)))
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    messages = [log["message"] for log in of(events, "log") if "attached" in log["message"]]
    assert messages == ["strace is attached to 2 processes"] * 2
    for step in ("pgbench", "oltp"):
        assert b"recvfrom" in agent.file(run, f"out/{step}/tracer.txt")


SLEEP = {"query": "select pg_sleep(600)", "times": 1, "tracer": {"tool": "strace", "backends": "server"}}


def attached(agent: Connection, run: str) -> list[int]:
    """The traced processes, once they are."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        data = agent.call("read", run=run, path="events.ndjson", offset=0)["data"]
        events = [json.loads(line) for line in base64.b64decode(data).splitlines()]
        if any("is attached" in event["data"].get("message", "") for event in events):
            (traced,) = [c["argv"][-1] for c in of(events, "command", purpose="tracer")]
            return [int(pid) for pid in traced.split(",")]
        time.sleep(0.2)
    raise AssertionError("it was never attached")


@pytest.mark.needs("strace")
def test_cancelling_ends_the_tracer_too(agent: Connection, steps: Steps, data_dir: Path) -> None:
    run = agent.submit(steps(("measure", "sql", SLEEP)))
    assert len(attached(agent, run)) > 3

    began = time.monotonic()
    agent.call("cancel", run=run)
    events = agent.events(run)

    assert time.monotonic() - began < 60
    assert of(events, "outcome") == [{"outcome": "cancelled", "error": None}]
    assert agent.call("status", run=run)["clean"] is True
    assert not postgres_processes(data_dir)


@pytest.mark.needs("strace")
def test_when_the_supervisor_dies_the_tracer_is_ended_before_those_whom_it_holds(
    connect: Callable[[], Connection], steps: Steps, tmp_path: Path, data_dir: Path
) -> None:
    agent = connect()
    run = agent.submit(steps(("measure", "sql", SLEEP)))
    attached(agent, run)
    state = (tmp_path / "spool/jobs" / run / "state.jsonl").read_text().splitlines()[-1]
    os.kill(json.loads(state)["pid"], signal.SIGKILL)

    hello = connect().call("hello")

    ended = [line for line in hello["recovered"][0]["did"] if line.startswith("ended")]
    assert ended[0].startswith("ended tracer") and (hello["busy"], hello["dirty"]) == (None, [])
    assert not postgres_processes(data_dir)


@pytest.mark.needs("strace")
def test_a_killed_tracer_leaves_no_process_stopped(agent: Connection, steps: Steps) -> None:
    run = agent.submit(steps(("measure", "sql", {**SLEEP, "query": "select pg_sleep(6)"})))
    traced = attached(agent, run)
    status = Path(f"/proc/{traced[0]}/status").read_text()
    tracer = int(status.partition("TracerPid:")[2].split()[0])
    assert tracer, "the load has ended"  # os.kill(0) would end this process too
    os.kill(tracer, signal.SIGKILL)

    events = agent.events(run)

    (outcome,) = of(events, "outcome")
    assert outcome["outcome"] == "failed" and "strace ended before the load" in outcome["error"]["message"]
    assert agent.call("status", run=run)["clean"] is True

"""Argument lists, refusals and progress lines: pure."""

from __future__ import annotations

from typing import Any

import pytest

from agents import tracer
from agents.errors import HostFailure, Unplannable
from agents.planning import check_spec
from agents.schema import check
from agents.workloads import WORKLOADS, Context
from agents.workloads.pgbench import progress
from agents.workloads.sql import explained

AT = Context(program="/bin/tool", out="/out", scratch="/scratch")
PGBENCH, FIO = WORKLOADS["pgbench"], WORKLOADS["fio"]


def refuse(kind: str, options: dict[str, Any]) -> Unplannable:
    with pytest.raises(Unplannable) as refused:
        check(WORKLOADS[kind].schema, options, kind)
        WORKLOADS[kind].check(options)
    return refused.value


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, "-n -M simple -c 1 -j 1 -T 10 -P 1 -b tpcb-like"),
        (
            {"builtin": "select-only", "mode": "prepared", "clients": 16, "jobs": 4, "report_per_command": True},
            "-n -M prepared -c 16 -j 4 -T 10 -P 1 -r -b select-only",
        ),
        ({"transactions": 100, "progress_s": 0}, "-n -M simple -c 1 -j 1 -t 100 -b tpcb-like"),
        (
            {"script": "select :a;", "scale": 5, "define": {"range": 1000, "a": "x"}},
            "-n -M simple -c 1 -j 1 -T 10 -P 1 -D a=x -D range=1000 -s 5 -f /scratch/script.sql",
        ),
    ],
)
def test_pgbench_arguments(options: dict[str, Any], arguments: str) -> None:
    assert PGBENCH.argv(options, AT) == ["/bin/tool", *arguments.split()]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"script": "\\shell id"}, "pgbench.script"),
        ({"script": "select 1;\n  \\setshell x id"}, "pgbench.script"),
        ({"script": "select 1;", "builtin": "select-only"}, "pgbench.script"),
        ({"time_s": 5, "transactions": 5}, "pgbench.transactions"),
        ({"clients": 0}, "pgbench.clients"),
        ({"clients": True}, "pgbench.clients"),
        ({"define": {"x;": 1}}, "pgbench.define.x; (its name)"),
        ({"host": "10.0.0.1"}, "pgbench.host"),
    ],
)
def test_pgbench_refuses(options: dict[str, Any], field: str) -> None:
    assert refuse("pgbench", options).field == field


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        (
            "progress: 1.0 s, 40373.6 tps, lat 0.097 ms stddev 0.124, 0 failed",
            (1.0, {"tps": 40373.6, "latency_ms": 0.097, "stddev_ms": 0.124}),
        ),
        (
            "progress: 5.0 s, 12.0 tps, lat 1.0 ms stddev 0.1, lag 0.4 ms",
            (5.0, {"tps": 12.0, "latency_ms": 1.0, "stddev_ms": 0.1}),
        ),
        ("progress: 2.0 s, 0.0 tps, lat NaN ms stddev NaN, 0 failed", (2.0, {"tps": 0.0})),
        ("pgbench: client 1 sending", None),
    ],
)
def test_progress_lines_of_all_versions(line: str, sample: Any) -> None:
    assert progress(line) == sample


def test_fio_fields_become_its_options() -> None:
    options = {"rw": "randrw", "bs": "8k", "rwmixread": 65, "direct": True, "runtime_s": 30, "ramp_s": 6}

    argv = FIO.argv(options, AT)

    assert argv[1:5] == ["--output-format=json+", "--output=/scratch/fio.json", "--eta=never", "--directory=/scratch"]
    assert {"--rw=randrw", "--rwmixread=65", "--direct=1", "--runtime=30", "--time_based=1"} <= set(argv)
    assert FIO.duration(options) == 36


def test_fio_takes_a_job_file_of_the_field() -> None:
    job = "# storage\n[global]\nioengine=libaio\ndirect=1\nbs=8k\n\n[seq]\nstonewall\nrw=read\nfilename=data\n"

    FIO.check({"job_file": job})

    assert FIO.argv({"job_file": job}, AT)[-1] == "/scratch/job.fio"


@pytest.mark.parametrize(
    "line",
    [
        "exec_prerun=reboot",
        "exec_postrun=reboot",
        "filename=/dev/sda",
        "filename=../x",
        "filename=a:/dev/sda",
        "directory=/etc",
        "name=../../x",
        "[../../x]",
        "include other.fio",
        "ioengine=external:/tmp/evil.so",
        "write_iops_log=/etc/x",
        "filename=${HOME}",
    ],
)
def test_fio_refuses_programs_paths_and_devices(line: str) -> None:
    assert refuse("fio", {"job_file": f"[a]\nrw=read\n{line}\n"}).value == line


def test_fio_refuses_fields_beside_a_job_file() -> None:
    assert refuse("fio", {"job_file": "[a]\nrw=read\n", "bs": "8k"}).field == "fio.bs"


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        ({"tool": "strace"}, "-c -w -o /out -p 7,8"),
        (
            {"tool": "strace", "backends": "server", "syscalls": ["pread64", "preadv"]},
            "-c -w -f -e trace=pread64,preadv -o /out -p 7,8",
        ),
        ({"tool": "perf", "syscalls": ["pread64"]}, "trace -s -e pread64 -o /out -p 7,8"),
        ({"tool": "perf", "events": ["cycles", "sched:sched_switch"]},
         "stat -x , -e cycles,sched:sched_switch -o /out -p 7,8"),
        ({"tool": "bpftrace", "syscalls": ["pread64"]}, "-o /out /script 7 8"),
        ({"tool": "stap", "script": "probe ..."}, "-v -x 7 -o /out /script 7 8"),
    ],
)  # fmt: skip
def test_tracer_arguments(asked: dict[str, Any], arguments: str) -> None:
    tracer.check("sql", {"tracer": asked})

    assert tracer.argv(asked, "/bin/tool", [7, 8], "/out", "/script") == ["/bin/tool", *arguments.split()]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"tool": "strace", "script": "x"}, "sql.tracer.script"),
        ({"tool": "strace", "events": ["cycles"]}, "sql.tracer.events"),
        ({"tool": "perf", "events": ["cycles"], "syscalls": ["read"]}, "sql.tracer.events"),
        ({"tool": "bpftrace"}, "sql.tracer.script"),
        ({"tool": "stap", "syscalls": ["read"]}, "sql.tracer.syscalls"),
        ({"tool": "strace", "syscalls": ["read,%process"]}, "sql.tracer.syscalls[0]"),
        ({"tool": "strace", "application": "x'; drop"}, "sql.tracer.application"),
        ({"tool": "gdb"}, "sql.tracer.tool"),
    ],
)
def test_tracer_refuses(asked: dict[str, Any], field: str) -> None:
    assert refuse("sql", {"query": "select 1", "tracer": asked}).field == field


def test_a_tracer_that_is_switched_off_may_keep_its_options() -> None:
    options = {"query": "select 1", "tracer": {"tool": "none", "syscalls": ["read"]}}

    WORKLOADS["sql"].check(options)

    assert not WORKLOADS["sql"].traces(options)
    assert WORKLOADS["sql"].needs(options) == ("psql",)
    assert WORKLOADS["sql"].needs({"tracer": {"tool": "perf"}}) == ("psql", "perf")


QUERY = {"query": "select 1"}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "sql.query"),
        ({"query": " "}, "sql.query"),
        ({**QUERY, "statements": "select 1"}, "sql.query"),
        ({"query": "select 1; drop table t"}, "sql.query"),
        ({"statements": "select 1", "times": 3}, "sql.times"),
        ({**QUERY, "times": 0}, "sql.times"),
        ({**QUERY, "timeout_s": 0}, "sql.timeout_s"),
    ],
)
def test_sql_refuses(options: dict[str, Any], field: str) -> None:
    assert refuse("sql", options).field == field


def test_explain_gets_what_its_version_has() -> None:
    assert explained({}, 18) == [
        *("analyze", "buffers on", "settings on", "timing on", "costs on", "verbose off", "wal off", "memory off"),
        "format json",
    ]
    assert explained({"verbose": True, "timing": False}, 9) == [
        *("analyze", "buffers on", "timing off", "costs on", "verbose on", "format json"),
    ]
    assert "serialize text" in explained({"serialize": "text"}, 17)


@pytest.mark.parametrize(("option", "major"), [("wal", 12), ("memory", 16), ("settings", 11)])
def test_what_explain_does_not_have_is_refused_when_it_was_asked_for(option: str, major: int) -> None:
    with pytest.raises(HostFailure, match=f"EXPLAIN of PostgreSQL {major} has no {option.upper()}"):
        explained({option: True}, major)


SPEC: dict[str, Any] = {
    "version": 1,
    "target": None,
    "settings": {},
    "steps": [{"name": "io", "kind": "fio", "options": {"directory": "/mnt"}}],
    "collect": {"interval_s": 1, "sources": ["cpu"]},
}
TARGET = {"kind": "private", "bin_dir": "/pg/bin", "data_dir": "/data", "os_user": ""}


def step(**changes: Any) -> dict[str, Any]:
    return {**SPEC["steps"][0], **changes}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 2}, "spec.version"),
        ({"steps": [step(name="../x")]}, "spec.steps[0].name"),
        ({"steps": [step(), step()]}, "steps.name"),
        ({"steps": [step(kind="rm")]}, "steps.io.kind"),
        ({"steps": [step(options={})]}, "fio.directory"),
        ({"steps": [step(kind="pgbench", options={})]}, "target"),
        ({"target": {**TARGET, "data_dir": "data"}}, "target.data_dir"),
        ({"target": {**TARGET, "os_user": "a b"}}, "target.os_user"),
        ({"collect": {"interval_s": 1, "sources": ["gpu"]}}, "spec.collect.sources[0]"),
        ({"settings": {"postgresql": {"work_mem": "1MB"}}}, "settings.postgresql"),
        ({"shell": "id"}, "spec.shell"),
    ],
)
def test_a_spec_is_checked_whole(changes: dict[str, Any], field: str) -> None:
    facts = {"level": "root", "tools": {}}
    check_spec(facts, SPEC)

    with pytest.raises(Unplannable) as refused:
        check_spec(facts, {**SPEC, **changes})

    assert refused.value.field == field


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_every_workload_describes_its_options(workload: Any) -> None:
    assert workload.title and "\n" not in workload.help and (workload.tools or not workload.metrics)
    assert all("title" in option for option in workload.schema["properties"].values())
    assert workload.schema["additionalProperties"] is False

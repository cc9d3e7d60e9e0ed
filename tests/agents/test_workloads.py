"""Argument lists, refusals and progress lines: pure."""

from __future__ import annotations

from typing import Any

import pytest

from agents.errors import Unplannable
from agents.planning import check_spec
from agents.schema import check
from agents.workloads import WORKLOADS, Context
from agents.workloads.pgbench import progress

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
        (
            {
                "builtins": {"tpcb-like": 1, "select-only": 9},
                "scripts": [{"name": "a", "text": "select 1;", "weight": 2}],
            },
            "-n -M simple -c 1 -j 1 -T 10 -P 1 -b select-only@9 -b tpcb-like -f /scratch/a.sql@2",
        ),
        (
            {"rate": 0.5, "latency_limit_ms": 20.25, "max_tries": 0, "random_seed": 2**64 - 1, "connect": True},
            "-n -M simple -c 1 -j 1 -T 10 -C -R 0.5 -L 20.25 --max-tries=0 --random-seed=18446744073709551615 -P 1"
            " -b tpcb-like",
        ),
        (
            {"log": "reduced", "sampling_rate": 0.00001, "failures_detailed": True, "exit_on_abort": True},
            "-n -M simple -c 1 -j 1 -T 10 -P 1 --failures-detailed --exit-on-abort -l --log-prefix=/scratch/transactions"
            " --sampling-rate=0.00001 -b tpcb-like",
        ),
        (
            {"aggregate_interval_s": 5, "define": {"share": 0.25}},
            "-n -M simple -c 1 -j 1 -T 10 -P 1 -l --log-prefix=/scratch/transactions --aggregate-interval=5"
            " -D share=0.25 -b tpcb-like",
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
        ({"scripts": [{"name": "a", "text": "select 1;\n\\shell id"}]}, "pgbench.scripts"),
        ({"scripts": [{"name": "a", "text": "x"}, {"name": "a", "text": "y"}]}, "pgbench.scripts"),
        ({"scripts": [{"name": "../a", "text": "x"}]}, "pgbench.scripts[0].name"),
        ({"scripts": [{"name": "a", "text": "x", "weight": 0}]}, "pgbench.scripts"),
        ({"builtins": {"select-only": 0}}, "pgbench.builtins"),
        ({"builtins": {"tpch": 1}}, "pgbench.builtins.tpch (its name)"),
        ({"builtins": {"select-only": 1}, "builtin": "select-only"}, "pgbench.builtins"),
        ({"rate": 5, "rate_share": 0.5, "rate_of": "max"}, "pgbench.rate_share"),
        ({"rate_share": 0.5}, "pgbench.rate_share"),
        ({"rate_share": 2.5, "rate_of": "max"}, "pgbench.rate_share"),
        ({"rate_of": "max"}, "pgbench.rate_of"),
        ({"max_tries": 0, "transactions": 10}, "pgbench.max_tries"),
        ({"sampling_rate": 0.5}, "pgbench.sampling_rate"),
        ({"aggregate_interval_s": 5, "log": "reduced"}, "pgbench.aggregate_interval_s"),
        ({"aggregate_interval_s": 3}, "pgbench.aggregate_interval_s"),
        ({"clients": 0}, "pgbench.clients"),
        ({"clients": True}, "pgbench.clients"),
        ({"define": {"x;": 1}}, "pgbench.define.x; (its name)"),
        ({"host": "10.0.0.1"}, "pgbench.host"),
    ],
)
def test_pgbench_refuses(options: dict[str, Any], field: str) -> None:
    assert refuse("pgbench", options).field == field


@pytest.mark.parametrize(
    ("option", "value", "major"),
    [("max_tries", 3, 14), ("failures_detailed", True, 14), ("exit_on_abort", True, 16), ("random_seed", 1, 10)],
)
def test_what_a_version_lacks_is_refused(option: str, value: object, major: int) -> None:
    with pytest.raises(Unplannable, match=f"accepted: PostgreSQL {major + 1} or newer") as refused:
        PGBENCH.check_version({option: value}, major)

    assert refused.value.field == f"pgbench.{option}"
    PGBENCH.check_version({option: value}, major + 1)
    PGBENCH.check_version({"max_tries": 1, "failures_detailed": False, "exit_on_abort": False}, 10)


@pytest.mark.parametrize("name", ["tps", "latency_p99.9", "script:2 latency_p99", "script:1 statement:3 latency"])
def test_figures_of_scripts_may_be_compared(name: str) -> None:
    assert PGBENCH.metric(name)
    assert PGBENCH.metric(f"no {name}") is None


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


SPEC: dict[str, Any] = {
    "version": 1,
    "target": None,
    "settings": {},
    "steps": [{"name": "io", "kind": "fio", "options": {"directory": "/mnt"}}],
    "collect": {"interval_s": 1, "sources": ["cpu"]},
}
TARGET = {"kind": "private", "bin_dir": "/pg/bin", "data_dir": "/data", "os_user": ""}
SWEEP = [
    {"name": "max", "kind": "pgbench", "options": {}},
    {"name": "half", "kind": "pgbench", "options": {"rate_share": 0.5, "rate_of": "max"}},
]


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
        ({"steps": SWEEP[1:], "target": TARGET}, "steps.half.rate_of"),
        ({"steps": SWEEP[::-1], "target": TARGET}, "steps.half.rate_of"),
        ({"steps": [step(name="max"), SWEEP[1]], "target": TARGET}, "steps.half.rate_of"),
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


def test_a_sweep_runs_after_the_step_whose_rate_it_takes() -> None:
    check_spec({"level": "user", "tools": {}}, {**SPEC, "target": TARGET, "steps": SWEEP})


def test_a_known_version_of_the_target_is_planned_with() -> None:
    installed = [{"bin_dir": "/pg/bin", "major": 14}, {"bin_dir": "/other", "major": 18}]
    wanted = {**SPEC, "target": TARGET, "steps": [step(kind="pgbench", options={"max_tries": 5})]}

    with pytest.raises(Unplannable, match="pgbench of 14 lacks it"):
        check_spec({"level": "user", "tools": {}, "postgresql": installed}, wanted)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_every_workload_describes_its_options(workload: Any) -> None:
    assert workload.title and "\n" not in workload.help and workload.tools
    assert all("title" in option for option in workload.schema["properties"].values())
    assert workload.schema["additionalProperties"] is False

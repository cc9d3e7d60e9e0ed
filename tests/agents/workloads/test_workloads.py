"""Arguments, refusals and progress of workloads, without running them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.errors import HostFailure, Unplannable
from agents.measure import tracer
from agents.run.planning import check_spec
from agents.wire.schema import check
from agents.workloads import WORKLOADS, Context, fio_jobs
from agents.workloads.base import Metric
from agents.workloads.fio import job_of, rates
from agents.workloads.pgbench import progress
from agents.workloads.sql import AT as AT_CLOCK
from agents.workloads.sql import explained, lines

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
            {"log": "reduced", "sampling_rate": 0.0001, "failures_detailed": True, "exit_on_abort": True},
            "-n -M simple -c 1 -j 1 -T 10 -P 1 --failures-detailed --exit-on-abort -l"
            " --log-prefix=/scratch/transactions --sampling-rate=0.0001 -b tpcb-like",
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
def test_options_that_a_version_lacks_are_refused(option: str, value: object, major: int) -> None:
    with pytest.raises(Unplannable, match=f"accepted: PostgreSQL {major + 1} or later") as refused:
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


def test_fio_fields_become_a_job_file() -> None:
    options = {"rw": "randrw", "bs": "8k", "rwmixread": 65, "direct": True, "runtime_s": 30, "ramp_s": 6}

    lines = set(job_of(options).rendered(lambda number, section: []).splitlines())

    assert {"[measure]", "rw=randrw", "rwmixread=65", "direct=1", "runtime=30", "time_based=1", "size=1g"} <= lines
    assert FIO.duration(options) == 36
    assert FIO.argv(options, AT)[-1] == "/scratch/job.fio"


FOUR = """[global]
runtime=180
ramp_time=6
filename=/data01/ext4

[a]
stonewall
rw=randrw

[b]
stonewall
rw=rw
runtime=1m

[beside b]
startdelay=10
"""


def test_fio_phases_follow_each_other_and_take_as_long_as_their_longest_section() -> None:
    job = fio_jobs.read(FOUR)

    assert [[section.name for section in phase] for phase in job.phases()] == [["a"], ["b", "beside b"]]
    assert job.seconds() == (6 + 180) + (10 + 6 + 180)
    assert fio_jobs.read("[a]\nrw=read\n").seconds() is None


def test_a_global_section_of_fio_applies_to_later_sections_only() -> None:
    job = fio_jobs.read("[global]\nbs=8k\n[a]\nrw=read\n[global]\nbs=4k\n[b]\nrw=read ; but why\n")

    assert [(section.name, section.resolved) for section in job.jobs] == [
        ("a", {"bs": "8k", "rw": "read"}),
        ("b", {"bs": "4k", "rw": "read"}),
    ]


def test_only_the_agent_sets_the_directory_of_fio_files() -> None:
    text = fio_jobs.read(FOUR).rendered(lambda number, section: [f"filename=/real/{number}"])

    assert [line for line in text.splitlines() if "filename" in line] == [f"filename=/real/{n}" for n in range(3)]


@pytest.mark.parametrize(
    "line",
    [
        "exec_prerun=reboot",
        "exec_postrun=reboot",
        "filename=../x",
        "filename=a:/dev/sda",
        "filename=-",
        "filename=..",
        "directory=etc",
        "name=../../x",
        "[../../x]",
        "include other.fio",
        "ioengine=external:/tmp/evil.so",
        "read_iolog=trace",
        "write_iops_log=/etc/x",
        "allow_mounted_write=1",
        "filename=${HOME}",
        "size=`id`",
        "verify_dump=1",
        "cgroup=x",
        *("=x", "=", "prioclass=1", "nice=-5", "cmdprio_percentage=5"),
    ],
)
def test_fio_refuses_programs_other_files_and_expansions(line: str) -> None:
    assert refuse("fio", {"job_file": f"[a]\nrw=read\n{line}\n"}).value == line


def test_the_duration_of_a_stored_run_is_known_if_its_job_file_is_refused_now() -> None:
    assert FIO.duration({"job_file": "[a]\nnice=-5\nruntime=3\n"}) == 3.0


def test_fio_gives_the_reason_for_each_refused_option() -> None:
    assert (
        "per-second logs are always written: remove it" in refuse("fio", {"job_file": "[a]\nwrite_bw_log=x\n"}).accepted
    )
    assert "another file" in refuse("fio", {"job_file": "[a]\ninclude more.fio\n"}).accepted


def test_fio_names_the_paths_that_must_be_allowed() -> None:
    job_file = (
        "[global]\ndirectory=/ssd:/nvme\n[a]\nrw=read\n[b]\nfilename=/data01/ext4:/dev/sdx\n[c]\nfilename=plain\n"
    )

    named = FIO.paths({"directory": "/data", "job_file": job_file})

    assert [(each.option, each.path, each.kind) for each in named] == [
        ("directory", "/data", "directory"),
        ("job_file", "/ssd", "directory"),
        ("job_file", "/nvme", "directory"),
        ("job_file", "/data01/ext4", "file"),
        ("job_file", "/dev/sdx", "file"),
    ]
    assert [each.path for each in FIO.paths({"filename": "/data01/ext4"})] == ["/data01/ext4"]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (
            "Jobs: 2 (f=2): [m(2),P(2)][75.0%][r=153MiB/s,w=81.1MiB/s][r=19.6k,w=10.4k IOPS][eta 00m:01s]",
            {"read_bw": 153 * 1024, "write_bw": 81.1 * 1024, "read_iops": 19600, "write_iops": 10400},
        ),
        ("Jobs: 1 (f=1): [R(1)][9.1%][r=1024KiB/s][r=256 IOPS][eta 00m:10s]", {"read_bw": 1024, "read_iops": 256}),
        ("Jobs: 2 (f=0): [_(2),/(2)][-.-%][eta 00m:00s]", {}),
        ("fio: pid=0, err=2", {}),
    ],
)
def test_fio_reports_rates_while_it_runs(line: str, values: dict[str, float]) -> None:
    assert rates(line) == pytest.approx(values)


def test_fio_refuses_fields_beside_a_job_file() -> None:
    assert refuse("fio", {"job_file": "[a]\nrw=read\n", "bs": "8k"}).field == "fio.bs"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"tool": "strace"}, "-c -w -o /out -p 7,8"),
        (
            {"tool": "strace", "backends": "server", "syscalls": ["pread64", "preadv"]},
            "-c -w -f -e trace=pread64,preadv -o /out -p 7,8",
        ),
        ({"tool": "perf", "syscalls": ["pread64"]}, "trace -s -m 1024 -e pread64 -o /out -p 7,8"),
        ({"tool": "perf", "events": ["cycles", "sched:sched_switch"]},
         "stat -x , -e cycles,sched:sched_switch -o /out -p 7,8"),
        ({"tool": "bpftrace", "syscalls": ["pread64"]}, "-o /out /script 7 8"),
        ({"tool": "stap", "script": "probe ..."}, "-v -x 7 -o /out /script 7 8"),
    ],
)  # fmt: skip
def test_tracer_arguments(options: dict[str, Any], arguments: str) -> None:
    tracer.check("sql", {"tracer": options})

    assert tracer.argv(options, "/bin/tool", [7, 8], "/out", "/script") == ["/bin/tool", *arguments.split()]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tool": "strace", "script": "x"}, "sql.tracer.script"),
        ({"tool": "strace", "events": ["cycles"]}, "sql.tracer.events"),
        ({"tool": "perf", "events": ["cycles"], "syscalls": ["read"]}, "sql.tracer.events"),
        ({"tool": "perf", "events": ["/tmp/x.c"]}, "sql.tracer.events[0]"),
        ({"tool": "perf", "events": ["./x.o"]}, "sql.tracer.events[0]"),
        ({"tool": "perf", "events": ["tmp/x.so/"]}, "sql.tracer.events[0]"),
        ({"tool": "bpftrace"}, "sql.tracer.script"),
        ({"tool": "stap", "syscalls": ["read"]}, "sql.tracer.syscalls"),
        ({"tool": "strace", "syscalls": ["read,%process"]}, "sql.tracer.syscalls[0]"),
        ({"tool": "strace", "application": "x'; drop"}, "sql.tracer.application"),
        ({"tool": "gdb"}, "sql.tracer.tool"),
    ],
)
def test_tracer_refuses(options: dict[str, Any], field: str) -> None:
    assert refuse("sql", {"query": "select 1", "tracer": options}).field == field


def test_a_tracer_that_is_switched_off_may_keep_its_options() -> None:
    options = {"query": "select 1", "tracer": {"tool": "none", "syscalls": ["read"]}}

    WORKLOADS["sql"].check(options)

    assert not WORKLOADS["sql"].traces(options)
    assert WORKLOADS["sql"].needs(options) == ("psql",)
    assert WORKLOADS["sql"].needs({"tracer": {"tool": "perf"}}) == ("psql", "perf")


QUERY = {"query": "select 1"}
FIGURES = {"hits": {"unit": "blocks", "better": "higher"}}


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
        ({"statements": "select 1", "figures": FIGURES}, "sql.figures"),
        ({**QUERY, "figures": FIGURES, "times": 3}, "sql.times"),
        ({**QUERY, "figures": FIGURES, "explain": False}, "sql.explain"),
        ({**QUERY, "figures": {"a-b": FIGURES["hits"]}}, "sql.figures.a-b (its name)"),
        ({**QUERY, "figures": {"hits": {"unit": "blocks"}}}, "sql.figures.hits.better"),
    ],
)
def test_sql_refuses(options: dict[str, Any], field: str) -> None:
    assert refuse("sql", options).field == field


def test_columns_that_are_figures_are_queried_once_and_declared() -> None:
    options = {"query": "select 7 as hits -- of all", "figures": FIGURES, "before": "set work_mem = '4MB'"}

    assert lines(options, 18)[-2:] == [
        "select $q0$select row_to_json(figures) from (select 7 as hits -- of all\n) as figures$q0$ \\gexec",
        AT_CLOCK,
    ]
    assert WORKLOADS["sql"].figures(options) == {"hits": Metric("blocks", "higher")}
    assert "execution_mean" in WORKLOADS["sql"].figures(QUERY)


def test_explain_gets_the_options_that_its_version_has() -> None:
    assert explained({}, 18) == [
        *("analyze", "buffers on", "settings on", "timing on", "costs on", "verbose off", "wal off", "memory off"),
        "format json",
    ]
    assert explained({"verbose": True, "timing": False}, 9) == [
        *("analyze", "buffers on", "timing off", "costs on", "verbose on", "format json"),
    ]
    assert "serialize text" in explained({"serialize": "text"}, 17)


@pytest.mark.parametrize(("option", "major"), [("wal", 12), ("memory", 16), ("settings", 11)])
def test_a_requested_option_that_explain_does_not_have_is_refused(option: str, major: int) -> None:
    with pytest.raises(HostFailure, match=f"EXPLAIN of PostgreSQL {major} has no {option.upper()}"):
        explained({option: True}, major)


SPEC: dict[str, Any] = {
    "version": 1,
    "target": None,
    "settings": {},
    "steps": [{"name": "io", "kind": "fio", "options": {"directory": "/mnt"}}],
    "allowed_paths": [{"kind": "directory", "path": "/mnt"}],
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
        ({"allowed_paths": []}, "fio.directory"),
        ({"steps": [step(options={"directory": "/mnt/../etc"})]}, "fio.directory"),
        ({"steps": [step(options={"directory": "/mnt", "filename": "/mnt2/x"})]}, "fio.filename"),
        ({"steps": [step(options={"directory": "/mnt", "filename": "/mnt"})]}, "fio.filename"),
        ({"steps": [step(options={"directory": "/mnt", "job_file": "[a]\nfilename=/dev/sda\n"})]}, "fio.job_file"),
        ({"allowed_paths": [{"kind": "anything", "path": "/"}]}, "spec.allowed_paths[0].kind"),
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
    run_spec = {**SPEC, "target": TARGET, "steps": [step(kind="pgbench", options={"max_tries": 5})]}

    with pytest.raises(Unplannable, match="pgbench of 14 lacks it"):
        check_spec({"level": "user", "tools": {}, "postgresql": installed}, run_spec)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_every_workload_describes_its_options(workload: Any) -> None:
    assert workload.title and "\n" not in workload.help and (workload.tools or not workload.metrics)
    assert all("title" in option for option in workload.schema["properties"].values())
    assert workload.schema["additionalProperties"] is False

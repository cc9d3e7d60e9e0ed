"""Rare outputs: old releases, other options of a tool, other languages, and additions by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from common.errors import FormatError
from readers.explain.output import parse_explain
from readers.fio.report import parse_fio
from readers.fio.terse import parse_fio_terse
from readers.guess import as_json, guess, read
from readers.host.lscpu_table import parse_lscpu_table
from readers.host.numastat_memory import parse_numastat_memory
from readers.measure import measure
from readers.others.sysbench_system import parse_sysbench_system
from readers.others.tracer import parse_perf_stat, parse_perf_trace, parse_strace
from readers.pgbench.stderr import parse_stderr
from readers.pgbench.summary import parse_summary
from readers.postgres.pg_test_fsync import parse_pg_test_fsync
from tests.contract.robustness.test_fuzz import SEEDS
from tests.contract.test_formats import SAMPLES

OLD_REPORT = b"""\
transaction type: Custom query
scaling factor: 1
query mode: simple
number of clients: 1
number of threads: 1
number of transactions per client: 10
number of transactions actually processed: 10/10
tps = 100.0 (including connections establishing)
tps = 110.0 (excluding connections establishing)
statement latencies in milliseconds, file 1:
\t0.212013\tBEGIN;
\t5.564781\tEND;
statement latencies in milliseconds, file 2:
\t1.779195\tSELECT 1;
"""


def test_pgbench_up_to_9_5_numbers_its_scripts() -> None:
    one, two = parse_summary(OLD_REPORT).scripts

    assert (one.name, [statement.latency_ms for statement in one.statements]) == ("file 1", [0.212013, 5.564781])
    assert (two.name, [statement.sql for statement in two.statements]) == ("file 2", ["SELECT 1;"])


@pytest.mark.parametrize("prefix", ["", "pgbench: error: "])
def test_an_aborted_run_is_recognised_with_and_without_the_name_of_the_program(prefix: str) -> None:
    raw = f"{prefix}Run was aborted; the above results are incomplete.\n".encode()

    assert guess(raw) == "pgbench-stderr"
    assert parse_stderr(raw).run_aborted


def test_a_size_that_is_not_available_in_pg_test_fsync_has_no_rate() -> None:
    raw = (SAMPLES / "pg_test_fsync-15.out").read_text()
    lines = [
        f"{line[:38]:<38}{'n/a*':>21}" if " open_sync write" in line and "ops/sec" in line else line
        for line in raw.splitlines()
    ]

    parsed = parse_pg_test_fsync(("\n".join(lines) + "\n").encode())

    assert {rate.ops_per_s for rate in parsed.table("open_sync_sizes").values()} == {None}
    assert len(parsed.table("open_sync_sizes")) == 5
    assert parsed.footnote and not parsed.missing


def test_sysbench_cpu_has_rate_and_latencies() -> None:
    parsed = parse_sysbench_system((SEEDS / "sysbench-system.out").read_bytes())

    assert (parsed.test, parsed.events_per_s, parsed.events, parsed.threads) == ("cpu", 620.29, 626, 1)
    assert (parsed.latency_avg_ms, parsed.percentiles_ms) == (1.6, ((95.0, 12.3),))


def test_sysbench_memory_has_throughput() -> None:
    raw = (SEEDS / "sysbench-system.2.out").read_bytes()

    parsed, figures = parse_sysbench_system(raw), {one.name: one.value for one in measure("sysbench", {"stdout": raw})}

    assert (parsed.test, parsed.events_per_s, parsed.mib_per_s) == ("memory", 1117312.95, 1091.13)
    assert (figures["throughput"], figures["events_per_s"]) == (1091.13, 1117312.95)


@pytest.mark.needs("fio")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_fio_terse_has_the_figures_of_the_json_of_the_same_run(version: int, tmp_path: Path) -> None:
    argv = ["fio", "--output-format=terse,json", f"--terse-version={version}", "--name=a", "--rw=randrw", "--size=1m"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=60, check=True)

    (terse,), (exact,) = parse_fio_terse(done.stdout).jobs, parse_fio(done.stdout).jobs

    for actual, expected in ((terse.read, exact.read), (terse.write, exact.write)):
        assert actual and expected and actual.clat and expected.clat
        assert (actual.io_bytes, actual.runtime_ms) == (expected.io_bytes, expected.runtime_ms)
        assert actual.iops == pytest.approx(expected.iops, abs=1)
        assert actual.bw_kib_s == pytest.approx(expected.bw_kib_s, abs=1)
        assert actual.clat.mean_ns == pytest.approx(expected.clat.mean_ns, abs=1)
        whole_us = [(at, ns // 1000 * 1000) for at, ns in expected.clat.percentiles_ns]
        assert list(actual.clat.percentiles_ns) == whole_us


def test_a_terse_line_with_too_few_fields_is_refused() -> None:
    line = (SEEDS / "fio-terse.txt").read_bytes()

    with pytest.raises(FormatError, match="fields"):
        parse_fio_terse(line[:900] + b"\n")


@pytest.mark.parametrize("name", ["lscpu-table.txt", "lscpu-table.2.txt"])
def test_both_tables_of_lscpu_have_core_socket_and_node(name: str) -> None:
    parsed = parse_lscpu_table((SEEDS / name).read_bytes())

    assert [(cpu.number, cpu.core, cpu.socket, cpu.node) for cpu in parsed.cpus] == [(0, 0, 0, 0), (1, 1, 0, 0)]


def test_a_dash_of_lscpu_is_an_unknown_value() -> None:
    head = b"CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE MAXMHZ\n"
    raw = head + b"  0    0      0    0 0:0:0:0  oui 4100,0000\n  1    -      -    - -        no -\n"

    one, two = parse_lscpu_table(raw).cpus

    assert (one.node, one.online, one.others["MAXMHZ"]) == (0, None, "4100,0000")
    assert (two.node, two.socket, two.core, two.online) == (None, None, None, False)


def test_numastat_m_has_memory_by_node_also_in_several_blocks() -> None:
    raw = b"""
Per-node system memory usage (in MBs):
Token Unaccepted not in hash table.
                          Node 0          Node 1
                 --------------- ---------------
MemTotal               385224.75       387055.24
MemFree                371649.29       376963.43

                           Total
                 ---------------
MemTotal               772279.99
MemFree                748612.72
"""
    parsed = parse_numastat_memory(raw)

    assert parsed.nodes == (0, 1)
    assert parsed.mb["MemFree"] == (371649.29, 376963.43)
    assert parsed.total_mb["MemTotal"] == 772279.99


@pytest.mark.parametrize("comment", ["  <-- slow", " -- before the index", "   # 12 rows", " // ?"])
def test_a_comment_behind_the_figures_of_a_plan_is_passed_over(comment: str) -> None:
    node = "Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4) (actual time=0.012..0.345 rows=2550 loops=1)"
    lines = [node, "  Filter: (note <> 'a -- b')", "  Buffers: shared hit=10", "Execution Time: 0.500 ms", ""]
    commented = [lines[0] + comment, lines[1], lines[2] + comment, lines[3] + comment, ""]

    assert parse_explain("\n".join(commented).encode()) == parse_explain("\n".join(lines).encode())


def test_decimal_commas_of_perf_are_decimals() -> None:
    trace = (SEEDS / "perf-trace.txt").read_text()
    comma = "\n".join(line.replace(".", ",") for line in trace.split("\n"))

    assert parse_perf_trace(comma.encode()) == parse_perf_trace(trace.encode())
    assert parse_perf_stat(b"123,6,msec,task-clock,691177,100,00,,\n")[0].events == 124
    assert parse_perf_stat(b"96,,sched:sched_switch,691177,100,00,,\n")[0].events == 96


@pytest.mark.parametrize("space", ["\u00a0", "\u202f"])
def test_a_no_break_space_between_thousands_is_part_of_the_number(space: str) -> None:
    rows = ("% time     seconds  usecs/call     calls    errors syscall",)
    rows += (f" 99.00    0.000300           7      1{space}234           read",)
    rows += (f"100.00    0.000300                    1{space}234           total", "")

    (traced,) = parse_strace("\n".join(rows).encode())

    assert traced.events == 1234


def test_the_last_bucket_of_fio_has_no_end_in_json() -> None:
    raw = (SAMPLES / "fio-3.33-document_job.json").read_text()
    slow = raw.replace('">=2000" : 0.000000', '">=2000" : 1.000000')

    kind, report = read(slow.encode())

    assert kind == "fio"
    assert as_json(report)["jobs"][0]["buckets"][-1]["high_ns"] is None

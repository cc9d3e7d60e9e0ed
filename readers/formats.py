"""The list of all formats. Each reader takes bytes and returns frozen dataclasses with units in field names, or raises
FormatError.

A format is one entry in FORMATS: its kind, its reader, and how to recognise it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from readers.explain.output import parse_explain, parse_psql_error
from readers.fio.job import parse_fio_job
from readers.fio.log import parse_fio_log
from readers.fio.report import parse_fio, parse_fio_stderr
from readers.fio.terse import parse_fio_terse
from readers.fio.text import parse_fio_text
from readers.host.cpuinfo import parse_cpuinfo
from readers.host.lscpu import parse_lscpu
from readers.host.lscpu_table import parse_lscpu_table
from readers.host.meminfo import parse_meminfo
from readers.host.numa_maps import parse_numa_maps
from readers.host.numactl import parse_numactl_hardware, parse_numactl_show
from readers.host.numastat import parse_numastat
from readers.host.numastat_memory import parse_numastat_memory
from readers.others.huge_page_csv import parse_huge_page_csv
from readers.others.stap import parse_stap
from readers.others.sysbench import parse_sysbench, parse_sysbench_failure, parse_sysbench_prepare
from readers.others.sysbench_system import parse_sysbench_system
from readers.others.tracer import parse_bpftrace, parse_perf_stat, parse_perf_trace, parse_strace
from readers.pgbench.aggregate import parse_aggregate
from readers.pgbench.log import parse_log
from readers.pgbench.stderr import parse_init, parse_stderr
from readers.pgbench.summary import parse_summary
from readers.postgres.pg_test_fsync import parse_pg_test_fsync
from readers.postgres.pg_test_timing import parse_pg_test_timing
from readers.postgres.server_log import parse_checkpoints


@dataclass(frozen=True)
class Format:
    """One output format. `parse` raises only FormatError. `recognises` gets the start of an output, with LF line
    ends."""

    kind: str
    title: str
    parse: Callable[[bytes], object]
    recognises: Callable[[bytes], bool]


def holds(mark: bytes, but_not: bytes = b"") -> Callable[[bytes], bool]:
    """Return a recogniser: some line matches the expression `mark`, and none matches `but_not`. ^ and $ match at
    line ends."""
    required, excluded = re.compile(mark, re.MULTILINE), re.compile(but_not, re.MULTILINE)
    return lambda head: bool(required.search(head)) and not (but_not and excluded.search(head))


_PLAN = (
    rb'^(?: *QUERY PLAN *$|.{1,1000}  \(cost=[0-9]| *"Plan": \{|- Plan: *$|<explain | *->  [A-Z])|"Plan": ?\{|\(actual '
)
_ALL = (
    Format(
        "pgbench",
        "pgbench's report (stdout), 9.4 to 18",
        parse_summary,
        holds(rb"^transaction type: "),
    ),
    Format(
        "pgbench-stderr",
        "pgbench's progress and errors (stderr), 9.4 to 18",
        parse_stderr,
        holds(
            rb"^(?:progress: [0-9.]+ s, |pgbench: |client [0-9]+ |Run was aborted; )", but_not=rb"^transaction type: "
        ),
    ),
    Format(
        "pgbench-init",
        "pgbench -i (stderr), 9.4 to 18",
        parse_init,
        holds(
            rb"^(?:dropping old tables\.|creating tables\.|generating data|creating primary keys\.|"
            rb"done in [0-9.]+ s \(|[0-9]+ of [0-9]+ tuples )",
            but_not=rb"^pgbench: ",
        ),
    ),
    Format(
        "pgbench-log",
        "pgbench -l, one line per transaction, 9.4 to 18",
        parse_log,
        holds(rb"\A\s*[0-9]+ [0-9]+ (?:[0-9]+|[a-z]+) [0-9]+ [0-9]{9,11} [0-9]+(?: [0-9]+){0,2}$"),
    ),
    Format(
        "pgbench-aggregate-log",
        "pgbench -l --aggregate-interval, one line per interval, 9.4 to 18",
        parse_aggregate,
        holds(rb"\A\s*[0-9]{9,11}(?: [0-9]+){5,14}$"),
    ),
    Format(
        "fio",
        "fio's JSON and JSON+, 2.x and 3.x",
        parse_fio,
        holds(rb'^\s*"fio version"'),
    ),
    Format(
        "fio-text",
        "fio's normal output, 2.x and 3.x",
        parse_fio_text,
        holds(rb"^[^\n]{1,200}: \(g(?:roupid)?=[0-9]+", but_not=rb'^\s*"fio version"'),
    ),
    Format(
        "fio-terse",
        "fio's terse output, versions 3 to 5",
        parse_fio_terse,
        holds(rb"^[345];fio-[^;\n]{1,40};[^;\n]{1,300};[0-9]+;[0-9]+;", but_not=rb'^\s*"fio version"'),
    ),
    Format(
        "fio-job",
        "fio's job file",
        parse_fio_job,
        holds(rb"^\[[^\[\]\n]{1,200}\]\s*$", but_not=rb"^\s*[{<]"),
    ),
    Format(
        "fio-log",
        "fio's log of bandwidth, IOPS or latency over time",
        parse_fio_log,
        holds(rb"\A\s*[0-9]+, [0-9]+, [012], [0-9]+(?:, \w+){0,2}$"),
    ),
    Format(
        "fio-stderr",
        "fio's error messages (stderr)",
        parse_fio_stderr,
        holds(
            rb"^(?:fio: |Bad option <|No job\(s\) defined)", but_not=rb'"fio version"|^Starting [0-9]|: \(g=[0-9]+\): '
        ),
    ),
    Format(
        "sysbench",
        "sysbench run of an SQL test, 1.0 and 1.1",
        parse_sysbench,
        holds(rb"^(?:SQL statistics:|\[ [0-9.]+s \] thds: )"),
    ),
    Format(
        "sysbench-system",
        "sysbench cpu and memory, 1.0 and 1.1",
        parse_sysbench_system,
        holds(rb"^(?:CPU speed:|Total operations: [0-9]+ \()", but_not=rb"^SQL statistics:"),
    ),
    Format(
        "sysbench-prepare",
        "sysbench prepare, 1.0 and 1.1",
        parse_sysbench_prepare,
        holds(rb"^(?:Creating table '|loading tables: [0-9]+ for warehouse: )", but_not=rb"^FATAL: "),
    ),
    Format(
        "sysbench-failure",
        "sysbench that failed before its report",
        parse_sysbench_failure,
        holds(rb"^FATAL: [^ ]", but_not=rb"^SQL statistics:"),
    ),
    Format(
        "pg_test_fsync",
        "pg_test_fsync in any language, 9.3 to 18",
        parse_pg_test_fsync,
        holds(rb"^ +open_datasync  +\S"),
    ),
    Format(
        "pg_test_timing",
        "pg_test_timing in any language, 9.3 to 19",
        parse_pg_test_timing,
        holds(rb"^ *[0-9]+ +[0-9]{1,3}[.,][0-9]{4,5} +(?:[0-9]{1,3}[.,][0-9]{4,5} +)?[0-9]+$"),
    ),
    Format(
        "explain",
        "EXPLAIN in text, JSON, YAML or XML, one plan or several, PostgreSQL 9.0 to 18",
        parse_explain,
        holds(_PLAN),
    ),
    Format(
        "psql-error",
        "psql's output of a failed statement",
        parse_psql_error,
        holds(rb"^(?:psql:[^\n]{0,300}: )?(?:ERROR|FATAL|PANIC):  ", but_not=_PLAN),
    ),
    Format(
        "postgresql-log",
        "checkpoints in a PostgreSQL server's log, 10 to 18",
        parse_checkpoints,
        holds(rb"LOG:  (?:00000: )?(?:checkpoint|restartpoint) (?:starting|complete): "),
    ),
    Format(
        "numa_maps",
        "/proc/PID/numa_maps",
        parse_numa_maps,
        holds(rb"^[0-9a-f]{4,16} (?:default|bind|prefer|interleave|local|weighted)"),
    ),
    Format(
        "numastat",
        "numastat",
        parse_numastat,
        holds(rb"^numa_hit +[0-9]"),
    ),
    Format(
        "numastat-memory",
        "numastat -m",
        parse_numastat_memory,
        holds(rb"^Per-node system memory usage \(in MBs\):"),
    ),
    Format(
        "numactl-hardware",
        "numactl --hardware",
        parse_numactl_hardware,
        holds(rb"^available: [0-9]+ nodes? \("),
    ),
    Format(
        "numactl-show",
        "numactl --show",
        parse_numactl_show,
        holds(rb"^policy: "),
    ),
    Format(
        "lscpu",
        "lscpu, as text or JSON",
        parse_lscpu,
        holds(rb'^Architecture: |^\s*"lscpu": *\['),
    ),
    Format(
        "lscpu-table",
        "lscpu -e and lscpu -p, one line per CPU",
        parse_lscpu_table,
        holds(rb"^(?:# CPU,|CPU +(?:NODE|SOCKET|CORE|ONLINE)\b)"),
    ),
    Format(
        "cpuinfo",
        "/proc/cpuinfo",
        parse_cpuinfo,
        holds(rb"^processor\s*: [0-9]"),
    ),
    Format(
        "meminfo",
        "/proc/meminfo",
        parse_meminfo,
        holds(rb"^(?:MemTotal|HugePages_Total): +[0-9]"),
    ),
    Format(
        "stap",
        "stap's counts of reads per query",
        parse_stap,
        holds(rb"^query__(?:start|done) "),
    ),
    Format(
        "strace",
        "strace -c",
        parse_strace,
        holds(rb"^% time +seconds "),
    ),
    Format(
        "perf-trace",
        "perf trace -s",
        parse_perf_trace,
        holds(rb"^ *Summary of events"),
    ),
    Format(
        "perf-stat",
        "perf stat -x,",
        parse_perf_stat,
        holds(rb"^(?:[0-9.]+|<not (?:counted|supported)>),[^,\n]*,[a-z][^,\n]*,[0-9]+,[0-9.]+,"),
    ),
    Format(
        "bpftrace",
        "bpftrace's maps @events and @ns",
        parse_bpftrace,
        holds(rb"^@(?:events|ns)(?:\[[^\]\n]{0,200}\])?: [0-9]"),
    ),
    Format(
        "huge-page-csv",
        "the CSV of the huge page experiment",
        parse_huge_page_csv,
        holds(rb"\A\s*huge_pages\(2MiB\),"),
    ),
)

FORMATS: dict[str, Format] = {output_format.kind: output_format for output_format in _ALL}

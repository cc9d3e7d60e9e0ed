"""Parse sysbench 1.0 and 1.1, tests `cpu` and `memory`.

Source: cpu_report_cumulative() in src/tests/cpu/sb_cpu.c, memory_report_cumulative() in
src/tests/memory/sb_memory.c."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

from common.errors import FormatError
from readers.others.sysbench import RULES, percentile_of, put
from readers.text import INT, NUMBER, each_line, finished, rule, rule_for

WHERE = "sysbench cpu or memory"


@dataclass(frozen=True)
class SystemRun:
    """A report. `test`: cpu or memory; values of the other test are None. For memory, `events_per_s` counts blocks
    read or written. `missing`: what an incomplete output lacks."""

    test: str
    events: int
    events_per_s: float
    total_time_s: float
    latency_min_ms: float
    latency_avg_ms: float
    latency_max_ms: float
    latency_sum_ms: float
    transferred_mib: float | None = None
    mib_per_s: float | None = None
    block_size: str | None = None
    operation: str | None = None
    scope: str | None = None
    prime_limit: int | None = None
    events_avg: float | None = None
    events_stddev: float | None = None
    time_avg_s: float | None = None
    time_stddev_s: float | None = None
    percentiles_ms: tuple[tuple[float, float], ...] = ()
    version: str | None = None
    threads: int | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        return ("threads fairness",) if self.events_avg is None or self.time_avg_s is None else ()


_OWN = (
    rule("events per second:", rf"\s+(?P<events_per_s>{NUMBER})", events_per_s=float),
    rule("Prime numbers limit: ", rf"(?P<prime_limit>{INT})", prime_limit=int),
    rule("Total operations: ", rf"{INT} \(\s*(?P<events_per_s>{NUMBER}) per second\)", events_per_s=float),
    rule("block size: ", r"(?P<block_size>[0-9]{1,18}[KMGT]?i?B)", block_size=str),
    rule("operation: ", r"(?P<operation>\w+)", operation=str),
    rule("scope: ", r"(?P<scope>\w+)", scope=str),
)
_MOVED = rule(
    "",
    rf"(?P<transferred_mib>{NUMBER}) MiB transferred \((?P<mib_per_s>{NUMBER}) MiB/sec\)",
    transferred_mib=float,
    mib_per_s=float,
)
_REPEATED = "events/s (eps):"  # 1.1 prints the event rate twice
_REQUIRED = tuple(field.name for field in fields(SystemRun) if field.default is MISSING and field.name != "test")


def parse_sysbench_system(raw: bytes) -> SystemRun:
    """Parse the output of one run. Raises FormatError if its report is incomplete."""
    fields: dict[str, Any] = {}
    percentiles: list[tuple[float, float]] = []
    for number, line in enumerate(each_line(finished(raw), WHERE), 1):
        line, where = line.strip(), f"{WHERE}, line {number}"
        known, percentile = rule_for(line, (*_OWN, *RULES)), percentile_of(line)
        if percentile:
            percentiles.append(percentile)
        elif _MOVED.pattern.fullmatch(line):
            put(fields, _MOVED.read(line, where), where)
        elif known and not line.startswith(_REPEATED):
            put(fields, known.read(line, where), where)
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise FormatError(WHERE, f"the output contains no {missing[0]}", hint="the run was killed or the output is cut")
    test = "cpu" if "prime_limit" in fields or "mib_per_s" not in fields else "memory"
    return SystemRun(test=test, percentiles_ms=tuple(percentiles), **fields)

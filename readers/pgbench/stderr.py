"""What pgbench prints on stderr: progress (-P), errors, and the progress of `pgbench -i`.

Source: printProgressReport(), initPopulateTable() and runInitSteps() in src/bin/pgbench/pgbench.c, and real runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from common.errors import FormatError
from readers.text import INT, NUMBER, lines_of, rule, rule_for, shown

WHERE = "pgbench stderr"
WHERE_INIT = "pgbench -i stderr"


@dataclass(frozen=True)
class Progress:
    """One line of -P, over the interval that ends at `t_s`: since the start, or since the epoch with timestamps."""

    t_s: float
    tps: float
    lat_ms: float | None
    stddev_ms: float | None
    failed: int | None = None
    lag_ms: float | None = None
    skipped: int | None = None
    retried: int | None = None
    retries: int | None = None


@dataclass(frozen=True)
class Stderr:
    """`progress` in order; `cut` when the last line was unfinished; every other line that is not blank is kept."""

    progress: tuple[Progress, ...]
    other_lines: tuple[str, ...]
    cut: bool = False

    @property
    def run_aborted(self) -> bool:
        return any(line.startswith("pgbench: ") and "Run was aborted" in line for line in self.other_lines)

    @property
    def aborted_clients(self) -> tuple[int, ...]:
        found = (_ABORTED.match(line) for line in self.other_lines)
        return tuple(int(match[1]) for match in found if match)

    @property
    def sql_errors(self) -> tuple[str, ...]:
        found = (_SQL_ERROR.search(line) for line in self.other_lines)
        return tuple(match[1] for match in found if match)


@dataclass(frozen=True)
class Init:
    """What `pgbench -i` told; `done` is False for an output that ends early. `steps_s`: step -> seconds (from 13)."""

    done: bool
    total_s: float | None = None
    steps_s: tuple[tuple[str, float], ...] = ()
    rows_done: int | None = None
    rows_total: int | None = None
    percent: int | None = None
    elapsed_s: float | None = None
    remaining_s: float | None = None
    progress_lines: int = 0


_ABORTED = re.compile(rf"(?:pgbench: (?:error|fatal): )?client ({INT}) (?:script {INT} )?aborted\b")
_SQL_ERROR = re.compile(r"\b(?:ERROR|FATAL|PANIC):  (.+)")
_FLOAT_OR_NAN = rf"(?:-?nan|NaN|{NUMBER})"

_PROGRESS = rule(
    "progress: ",
    rf"(?P<t_s>{NUMBER}) s, (?P<tps>{NUMBER}) tps, lat (?P<lat_ms>{_FLOAT_OR_NAN}) ms "
    rf"stddev (?P<stddev_ms>{_FLOAT_OR_NAN})(?:, (?P<failed>{INT}) failed)?(?:, lag (?P<lag_ms>{NUMBER}) ms)?"
    rf"(?:, (?P<skipped>{INT}) skipped)?(?:, (?P<retried>{INT}) retried, (?P<retries>{INT}) retries)?",
    t_s=float,
    tps=float,
    lat_ms=lambda text: _or_none(text),
    stddev_ms=lambda text: _or_none(text),
    failed=int,
    lag_ms=float,
    skipped=int,
    retried=int,
    retries=int,
)


def _or_none(text: str) -> float | None:
    # Releases that divide by zero in an interval without transactions print nan.
    return None if "nan" in text.lower() else float(text)


def parse_stderr(raw: bytes) -> Stderr:
    """Read the stderr of a run; an unfinished last line sets `cut`. Raises FormatError for a damaged progress line."""
    progress, others, cut = [], [], False
    lines = lines_of(raw, WHERE)
    for number, line in enumerate(lines, 1):
        if number == len(lines) and line.startswith(_PROGRESS.prefix):
            cut = True
        elif line.startswith(_PROGRESS.prefix):
            progress.append(Progress(**_PROGRESS.read(line.rstrip(), f"{WHERE}, line {number}")))
        elif line.strip():
            others.append(line.rstrip())
    return Stderr(tuple(progress), tuple(others), cut)


_TUPLES = re.compile(
    rf"(?P<rows_done>{INT}) of (?P<rows_total>{INT}) tuples \((?P<percent>{INT})%\)(?: of \w+)? done "
    rf"\(elapsed (?P<elapsed_s>{NUMBER}) s, remaining (?P<remaining_s>{NUMBER}) s\)"
)
_DONE = rule("done in ", rf"(?P<total_s>{NUMBER}) s \((?P<steps>.+)\)\.", total_s=float, steps=str)
_STEP = re.compile(rf"([\w -]+?) ({NUMBER}) s")
_OPENINGS = (
    "dropping old tables...",
    "creating tables...",
    "generating data",
    "vacuuming...",
    "creating primary keys...",
)


def parse_init(raw: bytes) -> Init:
    """Read the stderr of `pgbench -i`. Raises FormatError when nothing of it is there or its last line is damaged."""
    lines = [line.strip() for line in lines_of(raw, WHERE_INIT)]
    rows = [match for match in map(_TUPLES.fullmatch, lines) if match]
    if not rows and not any(line.startswith((*_OPENINGS, _DONE.prefix)) for line in lines):
        raise FormatError(WHERE_INIT, "no step of an initialisation in it", hint="give the stderr of pgbench -i")
    done = [(number, line) for number, line in enumerate(lines, 1) if rule_for(line, (_DONE,))]
    total_s, steps_s = _total(*done[-1]) if done else (None, ())
    return Init(
        done=bool(done) or "done." in lines,
        total_s=total_s,
        steps_s=steps_s,
        **(_rows(rows[-1]) if rows else {}),
        progress_lines=len(rows),
    )


def _rows(last: re.Match[str]) -> dict[str, Any]:
    return {name: float(text) if name.endswith("_s") else int(text) for name, text in last.groupdict().items()}


def _total(number: int, line: str) -> tuple[float, tuple[tuple[str, float], ...]]:
    where = f"{WHERE_INIT}, line {number}"
    found = _DONE.read(line, where)
    steps = [(_STEP.fullmatch(part), part) for part in found["steps"].split(", ")]
    bad = [part for match, part in steps if match is None]
    if bad:
        raise FormatError(where, f"cannot read the step {shown(bad[0])}", hint="expected a name and seconds")
    return found["total_s"], tuple((match[1], float(match[2])) for match, _ in steps if match)

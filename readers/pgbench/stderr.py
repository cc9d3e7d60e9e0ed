"""Parse pgbench's stderr: progress (-P), errors, and the progress of `pgbench -i`.

Source: printProgressReport(), initPopulateTable() and runInitSteps() in src/bin/pgbench/pgbench.c, and real runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from common.errors import FormatError
from readers.text import INT, NUMBER, Rows, check_text, each_line, finished, is_unfinished, rule, rule_for, shown

WHERE = "pgbench stderr"
WHERE_INIT = "pgbench -i stderr"


@dataclass(frozen=True)
class Progress:
    """One line of -P, for the interval that ends at `t_s`: seconds since the start, or since 1970 with timestamps."""

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
    """`progress`: in order. `cut`: the last line was incomplete. All other lines that are not blank are in the
    remaining fields."""

    progress: Rows[Progress]
    other_lines: tuple[str, ...]
    cut: bool = False

    @property
    def run_aborted(self) -> bool:
        return any(_RUN_ABORTED.match(line) for line in self.other_lines)

    @property
    def aborted_clients(self) -> tuple[int, ...]:
        matches = (_ABORTED.match(line) for line in self.other_lines)
        return tuple(int(match[1]) for match in matches if match)

    @property
    def sql_errors(self) -> tuple[str, ...]:
        matches = (_SQL_ERROR.search(line) for line in self.other_lines)
        return tuple(match[1] for match in matches if match)


@dataclass(frozen=True)
class Init:
    """The output of `pgbench -i`. `done`: False if the output ends early. `cut`: the last line is incomplete.
    `steps_s`: step -> seconds (from 13)."""

    done: bool
    total_s: float | None = None
    steps_s: tuple[tuple[str, float], ...] = ()
    rows_done: int | None = None
    rows_total: int | None = None
    percent: int | None = None
    elapsed_s: float | None = None
    remaining_s: float | None = None
    progress_lines: int = 0
    cut: bool = False


# Up to 12 without "pgbench: ".
_RUN_ABORTED = re.compile(r"(?:pgbench: .*)?Run was aborted\b")
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
    # Some releases divide by zero in an interval without transactions and print nan.
    return None if "nan" in text.lower() else float(text)


def parse_stderr(raw: bytes) -> Stderr:
    """Parse the stderr of a run. Raises FormatError for a damaged progress line, and if time goes back, as in the
    output of two runs."""
    others: list[str] = []
    count, before = 0, -1.0
    check_text(raw, WHERE)
    whole = finished(raw)
    for number, line in enumerate(each_line(whole, WHERE), 1):
        if line.startswith(_PROGRESS.prefix):
            where = f"{WHERE}, line {number}"
            now = _PROGRESS.read(line.rstrip(), where)["t_s"]
            if now <= before:
                raise FormatError(where, f"{now:g} s follows {before:g} s", hint="give the stderr of one run at a time")
            count, before = count + 1, now
        elif line.strip():
            others.append(line.rstrip())
    last = raw[len(whole) :].decode(errors="backslashreplace").strip()
    if last and not last.startswith(_PROGRESS.prefix):
        others.append(last)
    return Stderr(Rows(whole, _progress, count), tuple(others), bool(last))


def _progress(raw: bytes) -> Iterator[Progress]:
    lines = (line.rstrip() for line in each_line(raw, WHERE) if line.startswith(_PROGRESS.prefix))
    return (Progress(**_PROGRESS.read(line, WHERE)) for line in lines)


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
    """Parse the stderr of `pgbench -i`. Raises FormatError if it contains none, if its last line is damaged, or if
    it contains two initialisations."""
    last, rows, total, began, ended = None, 0, None, False, False
    for number, line in enumerate(each_line(finished(raw), WHERE_INIT), 1):
        line, where = line.strip(), f"{WHERE_INIT}, line {number}"
        row = _TUPLES.fullmatch(line)
        if (row and last and int(row["rows_done"]) <= int(last["rows_done"])) or (total and rule_for(line, (_DONE,))):
            raise FormatError(where, f"{shown(line)} starts again", hint="give one initialisation at a time")
        if row:
            last, rows = row, rows + 1
        elif rule_for(line, (_DONE,)):
            total = _total(line, where)
        began |= line.startswith(_OPENINGS)
        ended |= line == "done."
    if not last and not total and not began:
        raise FormatError(
            WHERE_INIT, "the output contains no step of an initialisation", hint="give the stderr of pgbench -i"
        )
    total_s, steps_s = total or (None, ())
    figures = _rows(last) if last else {}
    done = bool(total) or ended
    return Init(done, total_s, steps_s, **figures, progress_lines=rows, cut=is_unfinished(raw))


def _rows(last: re.Match[str]) -> dict[str, Any]:
    return {name: float(text) if name.endswith("_s") else int(text) for name, text in last.groupdict().items()}


def _total(line: str, where: str) -> tuple[float, tuple[tuple[str, float], ...]]:
    fields = _DONE.read(line, where)
    steps = [(_STEP.fullmatch(part), part) for part in fields["steps"].split(", ")]
    bad = [part for match, part in steps if match is None]
    if bad:
        raise FormatError(where, f"cannot read the step {shown(bad[0])}", hint="expected a name and seconds")
    return fields["total_s"], tuple((match[1], float(match[2])) for match, _ in steps if match)

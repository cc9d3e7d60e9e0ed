"""Measurements of SQL queries, from the output of psql: times, buffers, and whether the plan changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from common.errors import FormatError
from readers.explain.output import parse_explain
from readers.explain.plan import Plan
from readers.measure.figures import Measurement, Options, Outputs, distinct
from readers.text import NUMBER

# The agent's script makes psql print this after each execution: the server's clock in seconds since 1970.
_AT = re.compile(rb"^at ([0-9]{1,12}\.[0-9]{1,9})$", re.MULTILINE)
_TIME = re.compile(rf"^Time: ({NUMBER}) ms", re.MULTILINE)


def measure_sql(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the measurements of executions with EXPLAIN, of timed executions, or of statements that ran once."""
    blocks, clocks = _executions(outputs.get("stdout", b""))
    if "statements" in options:
        return [_statements(clocks)]
    if options.get("figures"):
        return list(_figures(blocks, options["figures"]))
    times = options.get("times", 3)
    if len(blocks) != times:
        raise FormatError("sql", f"the output has {len(blocks)} of {times} executions", hint="the output is cut")
    if options.get("explain", True):
        return distinct(list(_explained(blocks)))
    elapsed = [_elapsed(block) for block in blocks]
    spread = _spread("elapsed", elapsed, "ms", "lower", "as timed by psql")
    return [*spread, _total("elapsed", elapsed), Measurement("executions", times, "executions", "")]


def _executions(raw: bytes) -> tuple[list[bytes], list[float]]:
    """Return the output before each clock, and the clocks."""
    parts = _AT.split(raw)
    return parts[0:-1:2], [float(clock) for clock in parts[1::2]]


def _statements(clocks: list[float]) -> Measurement:
    if len(clocks) < 2:
        raise FormatError("sql", "the statements did not complete", hint="the output is cut")
    milliseconds = 1000 * (clocks[-1] - clocks[0])
    return Measurement("elapsed_total", milliseconds, "ms", "lower", "all statements, by the server's clock")


def _figures(blocks: Sequence[bytes], declared: Mapping[str, Mapping[str, Any]]) -> Iterator[Measurement]:
    """Yield the declared figures of the only row. A null was not measured."""
    rows = [line for block in blocks for line in block.splitlines() if line.strip()]
    if len(rows) != 1:
        raise FormatError("sql", f"the query returned {len(rows)} rows", hint="figures need exactly one row")
    row = _row(rows[0])
    for name, each in declared.items():
        if name not in row:
            raise FormatError("sql", f"{name} is not a column of the row", hint=f"its columns are {', '.join(row)}")
        if row[name] is not None:
            yield Measurement(name, _number(name, row[name]), each["unit"], each["better"], "a column of its row")


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise FormatError("sql", "the query did not return a row", hint="the output is cut")
    return row


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError("sql", f"{name} is {str(value)[:80]!r}, which is not a number", hint="cast it in the query")
    return float(value)


def plan_shapes(raw: bytes) -> list[str]:
    """Return the distinct shapes of plans in psql's output of explained executions, in the order in which they
    appear."""
    blocks, _ = _executions(raw)
    return list(dict.fromkeys(plan.shape for block in blocks for plan in parse_explain(block).plans))


def _explained(blocks: list[bytes]) -> Iterator[Measurement]:
    plans = [plan for block in blocks for plan in parse_explain(block).plans]
    execution = [_execution(plan) for plan in plans]
    yield from _spread("execution", execution, "ms", "lower", "Execution Time of EXPLAIN")
    yield _total("execution", execution)
    planning = [plan.planning_ms for plan in plans if plan.planning_ms is not None]
    yield from _spread("planning", planning, "ms", "lower", "Planning Time of EXPLAIN")
    buffers = [plan.root.buffers for plan in plans if plan.root.buffers]
    yield from _spread("shared_hit", [buffer.shared_hit for buffer in buffers], "blocks", "higher")
    yield from _spread("shared_read", [buffer.shared_read for buffer in buffers], "blocks", "lower")
    yield Measurement("executions", len(plans), "executions", "")
    yield _shapes([plan.shape for plan in plans])


def _execution(plan: Plan) -> float:
    milliseconds = plan.total_runtime_ms if plan.execution_ms is None else plan.execution_ms
    if milliseconds is None:
        raise FormatError("EXPLAIN", "an execution has no time", hint="the output is cut")
    return milliseconds


def _elapsed(block: bytes) -> float:
    """Return the duration in ms. psql prints one for the query, then one for the enclosing statement, which includes
    it."""
    times = _TIME.findall(block.decode(errors="backslashreplace"))
    if not times:
        raise FormatError("sql", "an execution was not timed", hint="the output is cut, or psql used another language")
    return float(times[0])


def _spread(
    name: str, values: Sequence[float], unit: str, better: Literal["higher", "lower"], definition: str = ""
) -> Iterator[Measurement]:
    if not values:
        return
    full_definition = ", ".join(filter(None, [definition, f"n = {len(values)}"]))
    for of, value in (("mean", sum(values) / len(values)), ("min", min(values)), ("max", max(values))):
        yield Measurement(f"{name}_{of}", value, unit, better, full_definition)


def _total(name: str, values: Sequence[float]) -> Measurement:
    return Measurement(f"{name}_total", sum(values), "ms", "lower", f"of {len(values)} executions")


def _shapes(shapes: list[str]) -> Measurement:
    """Return the number of distinct plans, with the first change from one plan to another in its definition."""
    changed = next((n for n, (one, two) in enumerate(pairwise(shapes), start=2) if one != two), 0)
    if not changed:
        return Measurement("plan_shapes", 1, "shapes", "lower", "the plan never changed")
    lines = [set(shapes[changed - 2].splitlines()), set(shapes[changed - 1].splitlines())]
    gone, come = ("; ".join(line.strip() for line in sorted(a - b)) for a, b in (lines, lines[::-1]))
    definition = f"execution {changed} of {len(shapes)}: {gone or 'the order of nodes'} -> {come or 'another'}"
    return Measurement("plan_shapes", len(set(shapes)), "shapes", "lower", definition)

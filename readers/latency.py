"""Parse what the agent records about a pgbench step: latency.json, histograms of the per-transaction logs, and
load.json, the values chosen before it ran. agents/wire/protocol.py describes both."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agents.wire.histogram import Histogram
from common.errors import FormatError

VERSION = 1
HINT = "it is cut, edited or from a newer agent; the raw output of pgbench is still available"
Loop = Literal["closed", "open"]
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True)
class Load:
    """How a step was driven: its loop, its seed, and the rate if it was a share of an earlier step's."""

    loop: Loop
    random_seed: int | None
    rate: float | None


@dataclass(frozen=True)
class Latencies:
    """Latencies in us of transactions that ended. `word_counts`: transactions without a latency, by pgbench's word
    for them."""

    name: str
    histogram: Histogram
    word_counts: Mapping[str, int]


@dataclass(frozen=True)
class LatencyReport:
    """The latencies of a step. With a `sampling_rate` below 1, all counts are those of the sample."""

    loop: Loop
    sampling_rate: float
    lines: int
    unread: int
    all: Latencies
    scripts: tuple[Latencies, ...]
    lag: Histogram | None
    retried: int | None
    retries: int | None
    slot_s: int
    slots: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]  # (second since 1970, ((bucket of 4 bits, count) ...))


def parse_latency(raw: bytes) -> LatencyReport:
    """Parse latency.json. Raises FormatError if it is incomplete or not from an agent."""
    report = _object("latency.json", raw)
    if report.get("version") != VERSION:
        raise FormatError(
            "latency.json", f"version {report.get('version')!r} is not supported", hint=f"supported: {VERSION}"
        )
    try:
        return _report(report)
    except UNREADABLE as error:
        raise _unreadable("latency.json", error) from error


def parse_load(raw: bytes) -> Load:
    """Parse load.json. Raises FormatError if it is incomplete or not from an agent."""
    load = _object("load.json", raw)
    try:
        rate, seed = load.get("rate"), load.get("random_seed")
        return Load(_loop(load["loop"]), _count(seed), None if rate is None else _finite(rate))
    except UNREADABLE as error:
        raise _unreadable("load.json", error) from error


def _object(where: str, raw: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise FormatError(where, f"not valid JSON: {error}", hint=HINT) from error
    if not isinstance(parsed, dict):
        raise FormatError(where, "not a JSON object", hint=HINT)
    return parsed


def _unreadable(where: str, error: Exception) -> FormatError:
    return FormatError(where, f"cannot read it: {type(error).__name__} {error}", hint=HINT)


def _loop(loop: object) -> Loop:
    if loop == "closed" or loop == "open":
        return loop
    raise ValueError(f"loop is {loop!r}")


def _finite(number: Any) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a number")
    return float(number)


def _report(report: dict[str, Any]) -> LatencyReport:
    return LatencyReport(
        loop=_loop(report["loop"]),
        sampling_rate=_finite(report["sampling_rate"]),
        lines=int(report["lines"]),
        unread=int(report["unread"]),
        all=_latencies("", report["all"]),
        scripts=tuple(_latencies(str(script["name"]), script) for script in report["scripts"]),
        lag=None if report["lag"] is None else Histogram.from_json(report["lag"]),
        retried=_count(report["retried"]),
        retries=_count(report["retries"]),
        slot_s=int(report["slots"]["width_s"]),
        slots=tuple((int(second), _pairs(row)) for second, row in report["slots"]["rows"]),
    )


def _latencies(name: str, latencies: dict[str, Any]) -> Latencies:
    word_counts = {str(word): int(times) for word, times in latencies["words"].items()}
    return Latencies(name, Histogram.from_json(latencies), word_counts)


def _pairs(row: list[Any]) -> tuple[tuple[int, int], ...]:
    return tuple((int(bucket), int(times)) for bucket, times in row)


def _count(value: Any) -> int | None:
    return None if value is None else int(value)

"""What the tracer of a step has counted, beside the step's own figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.tracer import OUTPUT, wanted
from apps.results.formats.tracer import Traced, parse_bpftrace, parse_perf_stat, parse_perf_trace, parse_strace
from apps.results.measure.figures import Measurement, Options, Outputs

EVENTS, NS_PER_EVENT = "tracer events", "tracer ns per event"


def measure_tracer(outputs: Outputs, options: Options) -> list[Measurement]:
    """Nothing where no tracer was started."""
    asked = wanted(dict(options))
    if not asked:
        return []
    name, parse = _reader(asked)
    traced = parse(outputs.get(OUTPUT, b""))
    events = sum(each.events for each in traced)
    told = f"{name}: " + ", ".join(f"{each.name} {each.events}" for each in traced)
    found = [Measurement(EVENTS, events, "events", "", told)]
    timed = [each for each in traced if each.total_ns is not None]
    if timed and events:
        total = sum(each.total_ns or 0.0 for each in timed)
        definition = f"{name}: time in what it counted, as the tracer sees it"
        found.append(Measurement(NS_PER_EVENT, total / events, "ns", "lower", definition))
    return found


def _reader(asked: dict[str, Any]) -> tuple[str, Callable[[bytes], tuple[Traced, ...]]]:
    if asked["tool"] == "perf":
        return ("perf stat", parse_perf_stat) if asked.get("events") else ("perf trace", parse_perf_trace)
    return {"strace": ("strace", parse_strace), "bpftrace": ("bpftrace", parse_bpftrace)}[asked["tool"]]

"""Measurements of the tracer that ran during a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers.measure.figures import Measurement, Options, Outputs
from readers.others.stap import parse_stap
from readers.others.tracer import (
    Traced,
    lost_events,
    parse_bpftrace,
    parse_perf_stat,
    parse_perf_trace,
    parse_strace,
)

OUTPUT = "tracer.txt"
EVENTS, LOST, NS_PER_EVENT = "tracer events", "tracer lost records", "tracer ns per event"


def measure_tracer(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the tracer's counts and times; empty if none ran."""
    tracer = options.get("tracer", {})
    if tracer.get("tool", "none") == "none":
        return []
    name, parse = _reader(tracer)
    raw = outputs.get(OUTPUT, b"")
    traced, lost = parse(raw), lost_events(raw)
    events = sum(traced_event.events for traced_event in traced)
    counts = f"{name}: " + ", ".join(
        f"{traced_event.name} {traced_event.events}" for traced_event in traced if traced_event.events
    )
    measurements = [Measurement(EVENTS, events, "events", "", f"{counts}; records were lost" if lost else counts)]
    if lost:
        measurements.append(Measurement(LOST, lost, "records", "lower", f"{name} lost events: there were too many"))
    timed = [traced_event for traced_event in traced if traced_event.total_ns is not None]
    if timed and events:
        total = sum(each.total_ns or 0.0 for each in timed)
        definition = f"{name}: time in the counted calls, as measured by the tracer"
        measurements.append(Measurement(NS_PER_EVENT, total / events, "ns", "lower", definition))
    return measurements


def _reader(tracer: dict[str, Any]) -> tuple[str, Callable[[bytes], tuple[Traced, ...]]]:
    if tracer["tool"] == "perf":
        return ("perf stat", parse_perf_stat) if tracer.get("events") else ("perf trace", parse_perf_trace)
    return tracer["tool"], {"strace": parse_strace, "bpftrace": parse_bpftrace, "stap": _reads}[tracer["tool"]]


def _reads(raw: bytes) -> tuple[Traced, ...]:
    queries = parse_stap(raw).queries
    return (Traced("read", sum(q.reads for q in queries), float(sum(q.reads * q.avg_ns for q in queries))),)

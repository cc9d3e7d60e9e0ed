"""What tracers print, from real runs: strace 6.1, perf 6.1, bpftrace 0.17."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import FormatError
from readers.measure import Measurement, measure
from readers.measure.tracer import measure_tracer
from readers.others.tracer import Traced, parse_bpftrace, parse_perf_stat, parse_perf_trace, parse_strace

STRACE = b"""% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 86.11    0.000339          10        31        13 openat
 13.89    0.000055          10         5           read
------ ----------- ----------- --------- --------- ----------------
100.00    0.000394          10        36        13 total
"""
PERF_TRACE = b"""
 Summary of events:

 postgres (23120), 8726 events, 100.0%

   syscall            calls  errors  total       min       avg       max       stddev
                                     (msec)    (msec)    (msec)    (msec)        (%)
   --------------- --------  ------ -------- --------- --------- ---------     ------
   pread64             4363      0   257.872     0.010     0.059    46.794     20.42%

 postgres (23121), 2 events, 0.0%

   syscall            calls  errors  total       min       avg       max       stddev
                                     (msec)    (msec)    (msec)    (msec)        (%)
   --------------- --------  ------ -------- --------- --------- ---------     ------
   pread64                1      0     0.128     0.128     0.128     0.128      0.00%
"""
PERF_STAT = b"""# started on Sat Nov 21 18:05:50 2026

71000,,syscalls:sys_enter_pread64,62920087,100.00,,
71071,,raw_syscalls:sys_enter,62920087,100.00,,
"""
BPFTRACE = b"""Attaching 3 probes...
@events: 0


@events[pread64]: 206997
@ns[pread64]: 267775940
"""
SAMPLES: dict[Callable[[bytes], tuple[Traced, ...]], bytes] = {
    parse_strace: STRACE,
    parse_perf_trace: PERF_TRACE,
    parse_perf_stat: PERF_STAT,
    parse_bpftrace: BPFTRACE,
}


def test_strace_counts_calls_and_their_time() -> None:
    assert parse_strace(STRACE) == (Traced("openat", 31, 339_000), Traced("read", 5, 55_000))
    assert parse_strace(b"") == ()


def test_lost_records_of_perf_trace_are_reported_beside_its_counts() -> None:
    options = {"tracer": {"tool": "perf"}}
    raw = b"LOST 1639 events!\nLOST 2353 events!\n" + PERF_TRACE

    measured = {one.name: one for one in measure_tracer({"tracer.txt": raw}, options)}

    assert measured["tracer lost records"].value == 1639 + 2353
    assert measured["tracer events"].definition.endswith("records were lost")
    assert "tracer lost records" not in {one.name for one in measure_tracer({"tracer.txt": PERF_TRACE}, options)}


def test_perf_trace_is_summed_over_its_threads() -> None:
    (read,) = parse_perf_trace(PERF_TRACE)

    assert (read.name, read.events, read.total_ns) == ("pread64", 4364, pytest.approx(258_000_000))
    assert read.ns_per_event == pytest.approx(59_120, abs=1)


def test_perf_stat_counts_each_event_and_refuses_uncounted_ones() -> None:
    assert parse_perf_stat(PERF_STAT)[1] == Traced("raw_syscalls:sys_enter", 71071)
    with pytest.raises(FormatError, match="cycles was not supported"):
        parse_perf_stat(b"<not supported>,,cycles,0,100.00,,\n")


def test_the_maps_of_bpftrace_are_read_with_keys_and_without() -> None:
    assert parse_bpftrace(BPFTRACE)[1] == Traced("pread64", 206997, 267_775_940)
    assert parse_bpftrace(b"@events: 7\n") == (Traced("events", 7),)


@pytest.mark.parametrize("parse", SAMPLES)
def test_an_output_of_another_tool_is_refused(parse: Callable[[bytes], tuple[Traced, ...]]) -> None:
    with pytest.raises(FormatError):
        parse(b"Operation not permitted\n")


def test_a_step_has_its_own_figures_and_those_of_its_tracer() -> None:
    options = {"tracer": {"tool": "stap", "script": "..."}, "query": "select 1", "times": 1, "explain": False}
    stap = b"query__start q;pid:7\n7**94297**3194\nquery__done q;pid:7\n"

    measured = measure("sql", {"stdout": b"Time: 3.5 ms\nat 1795283844.43\n", "tracer.txt": stap}, options)

    assert measured[-2] == Measurement("tracer events", 94297, "events", "", "stap: read 94297")
    assert (measured[-1].name, measured[-1].value, measured[-1].unit) == ("tracer ns per event", 3194, "ns")
    assert not measure_tracer({}, {"tracer": {"tool": "none"}})


@pytest.mark.thorough
@settings(max_examples=2000)
@given(data=st.data())
@pytest.mark.parametrize("parse", SAMPLES)
def test_damaged_outputs_raise_nothing_but_our_error(
    parse: Callable[[bytes], tuple[Traced, ...]], data: st.DataObject
) -> None:
    sample = SAMPLES[parse]
    begin = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(begin, len(sample)))
    damaged = sample[:begin] + data.draw(st.binary(max_size=40)) + sample[end:]
    try:
        traced = parse(damaged)
    except FormatError:
        return
    assert all(each.events >= 0 for each in traced)

"""What sysbench says in cases of which there is no sample."""

from __future__ import annotations

import pytest

from common.errors import FormatError
from readers.others.sysbench import parse_sysbench, parse_sysbench_prepare
from tests.contract.test_formats import SAMPLES

# The second half of a report as 1.1 prints it.
OF_1_1 = b"""Throughput:
    events/s (eps):                      2098.7000
    time elapsed:                        2.0050s
    total number of events:              4209
"""


def report() -> bytes:
    return (SAMPLES / "sysbench-oltp_read_only.out").read_bytes()


def as_1_1(raw: bytes) -> bytes:
    start, end = raw.index(b"General statistics:"), raw.index(b"Latency (ms):")
    return raw[:start] + OF_1_1 + b"\n" + raw[end:]


def test_the_report_of_1_1_has_the_same_figures_and_events_per_second() -> None:
    older, newer = parse_sysbench(report()), parse_sysbench(as_1_1(report()))

    assert (newer.total_time_s, newer.events, newer.tps) == (older.total_time_s, older.events, older.tps)
    assert (older.events_per_s, newer.events_per_s) == (None, 2098.7)


def test_a_disabled_percentile_is_none() -> None:
    parsed = parse_sysbench(
        report().replace(b"95th percentile:                        2.57", b"percentile stats: disabled")
    )

    assert parsed.percentiles_ms == ()


def test_builds_with_several_percentiles_are_read() -> None:
    more = b"95th percentile: 2.57\n 99th percentile: 5.00\n 999th percentile: 9.00"

    parsed = parse_sysbench(report().replace(b"95th percentile:                        2.57", more))

    assert parsed.percentiles_ms == ((95.0, 2.57), (99.0, 5.0), (99.9, 9.0))


def test_the_histogram_counts_every_event() -> None:
    parsed = parse_sysbench((SAMPLES / "sysbench-oltp_histogram.out").read_bytes())

    assert sum(count for _, count in parsed.histogram) == parsed.events
    assert parsed.histogram[0] == (0.015, 2)


def test_a_report_without_its_end_says_what_is_missing() -> None:
    whole = report()

    cut = parse_sysbench(whole[: whole.index(b"Threads fairness:")])

    assert (cut.missing, cut.events_avg) == (("threads fairness",), None)
    assert parse_sysbench(whole).missing == ()


@pytest.mark.parametrize("mark", [b"SQL statistics:", b"transactions:", b"General statistics:", b"avg:"])
def test_a_report_that_is_cut_before_its_figures_end_is_refused(mark: bytes) -> None:
    whole = report()

    with pytest.raises(FormatError, match=r"killed or the output is cut|cannot read"):
        parse_sysbench(whole[: whole.index(mark)])


def test_two_reports_are_refused() -> None:
    with pytest.raises(FormatError, match="appears twice"):
        parse_sysbench(report() * 2)


def test_a_failed_run_is_refused_with_its_reason() -> None:
    with pytest.raises(FormatError, match=r"it failed: .*sbtest1"):
        parse_sysbench((SAMPLES / "sysbench-err_no_tables.out").read_bytes())


def test_prepare_has_rows_and_indexes_of_each_table() -> None:
    whole = (SAMPLES / "sysbench-oltp_prepare.out").read_bytes()

    first, second = parse_sysbench_prepare(whole[: whole.index(b"Creating a secondary index on 'sbtest2'")]).tables

    assert (first.rows, first.secondary_index) == (20000, True)
    assert (second.rows, second.secondary_index) == (20000, False)


def test_prepare_of_tpc_c_has_its_warehouses() -> None:
    loading = b"loading tables: 1 for warehouse: %d\n"
    raw = b"Creating tables: 1\n\nAdding indexes 1 ... \n\n" + loading % 2 + loading % 1

    assert parse_sysbench_prepare(raw).warehouses == (1, 2)

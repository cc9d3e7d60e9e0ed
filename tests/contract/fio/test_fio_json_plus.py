"""fio's histograms (JSON+), groups, and logs over time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import FormatError
from readers.fio.log import log_unit, parse_fio_log
from readers.fio.report import Histogram, Report, parse_fio

LATENCY = {"min": 10, "max": 4000, "mean": 20.0, "stddev": 1.0}


def a_direction(**more: Any) -> dict[str, Any]:
    return {
        "io_bytes": 8192000,
        "io_kbytes": 8000,
        "bw": 8000,
        "iops": 1000.0,
        "runtime": 1000,
        "total_ios": 1000,
        "clat_ns": {**LATENCY, "N": 1000},
    } | more


def a_report(*jobs: dict[str, Any]) -> Report:
    named = [{"jobname": f"job{number}", **job} for number, job in enumerate(jobs)]
    return parse_fio(json.dumps({"fio version": "fio-3.33", "jobs": named}, indent=1).encode())


def with_bins(bins: dict[str, int], key: str = "clat_ns") -> Histogram | None:
    direction = a_report({"read": a_direction(**{key: {**LATENCY, "bins": bins}})}).jobs[0].directions["read"]
    assert direction.clat
    return direction.clat.histogram


def test_bins_become_a_histogram_in_order_of_latency() -> None:
    assert with_bins({"1000": 3, "94": 1, "380": 2}) == Histogram(((94, 1), (380, 2), (1000, 3)))


def test_bins_in_microseconds_of_2x_become_nanoseconds() -> None:
    older = a_direction(clat={**LATENCY, "bins": {"16": 5}})
    del older["clat_ns"]

    direction = a_report({"read": older}).jobs[0].directions["read"]

    assert direction.clat and direction.clat.histogram == Histogram(((16000, 5),), unit_ns=1000)


def test_numbered_bins_are_converted_by_the_constants_of_the_report() -> None:
    constants = {"FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_VAL": 64, "FIO_IO_U_PLAT_NR": 1216}

    histogram = with_bins({"0": 0, "100": 1, "128": 2, "192": 3, **constants})

    assert histogram == Histogram(((100, 1), (129, 2), (258, 3)))


def test_a_percentile_is_the_first_bin_that_reaches_the_share() -> None:
    histogram = Histogram(((10, 500), (20, 490), (30, 9), (40, 1)))

    assert [histogram.percentile(p) for p in (0.1, 50, 50.1, 99, 99.9, 99.91, 100)] == [10, 10, 20, 20, 30, 40, 40]
    assert (histogram.count, histogram.mean_ns) == (1000, 15.11)


@pytest.mark.parametrize("percentage", [0, -1, 100.1, float("nan")])
def test_a_percentage_outside_of_0_to_100_is_refused(percentage: float) -> None:
    with pytest.raises(ValueError, match="it must be above 0 and at most 100"):
        Histogram(((10, 1),)).percentile(percentage)


def test_histograms_of_several_jobs_are_counted_together() -> None:
    merged = Histogram.merged([Histogram(((10, 1), (20, 1))), Histogram(((20, 2), (40, 6)))])

    assert merged == Histogram(((10, 1), (20, 3), (40, 6)))
    assert merged.percentile(50) == 40


def test_a_report_shows_which_jobs_ran_at_the_same_time() -> None:
    report = a_report({"groupid": 0}, {"groupid": 1}, {"groupid": 1})

    assert {group: [job.name for job in jobs] for group, jobs in report.groups.items()} == {
        0: ["job0"],
        1: ["job1", "job2"],
    }


def test_mixed_reporting_is_a_direction_of_its_own() -> None:
    assert a_report({"mixed": a_direction()}).jobs[0].directions["mixed"].total_ios == 1000


def test_percentiles_are_those_of_lat_where_lat_percentiles_was_set() -> None:
    lat = {**LATENCY, "N": 1000, "percentile": {"99.000000": 3000}}

    direction = a_report({"read": a_direction(lat_ns=lat)}).jobs[0].directions["read"]

    assert direction.main_latency == direction.lat


def test_sampled_rates_are_read_unless_the_run_was_too_short() -> None:
    sampled = {"iops_min": 5, "iops_max": 9, "iops_mean": 7.5, "iops_stddev": 1.5, "iops_samples": 4}
    direction = a_report({"read": a_direction(**sampled)}).jobs[0].directions["read"]
    short = a_report({"read": a_direction(**dict.fromkeys(sampled, 0))}).jobs[0].directions["read"]

    assert direction.iops_spread and (direction.iops_spread.min, direction.iops_spread.samples) == (5, 4)
    assert direction.bw_kib_s_spread is None and short.iops_spread is None


@pytest.mark.parametrize("bins", [{"x": 1}, {"10": -1}, {"FIO_IO_U_PLAT_BITS": 6, "99999": 1}, {"10": 1.5}])
def test_bins_that_fio_does_not_write_are_refused(bins: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="bin"):
        with_bins(bins)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("{}, {}, {}, 0", id="2.x"),
        pytest.param("{}, {}, {}, 8192, 0", id="with priority"),
        pytest.param("{}, {}, {}, 8192, 65536, 0", id="log_offset"),
        pytest.param("{}, {}, {}, 8192, 65536, 0x0004", id="log_offset and log_prio"),
    ],
)
def test_a_log_gives_a_series_for_each_direction(row: str) -> None:
    rows = [row.format(500, 96289, 0), row.format(500, 96918, 1), row.format(1000, 102640, 0)]

    log = parse_fio_log("\n".join(rows).encode() + b"\n")

    read, write = log.series
    assert (read.direction, [*read.time_ms], [*read.values]) == ("read", [500, 1000], [96289, 102640])
    assert (write.direction, [*write.time_ms], [*write.values]) == ("write", [500], [96918])
    assert log.direction("write") == write and log.direction("trim") is None and not log.cut


@pytest.mark.parametrize("last", ["1000, 10", "1000, 102640, 0", "1000, 102640, 0, ", "1000, 102640, 0, 0, 0"])
def test_a_log_cut_short_is_read_up_to_its_last_whole_row(last: str) -> None:
    log = parse_fio_log(f"500, 96289, 0, 0, 0\n{last}".encode())

    assert log.cut and [*log.series[0].values] == [96289]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no row"),
        (b"\n\n", "no row"),
        (b"500, 1, 3, 0\n1000, 1, 0, 0\n", "line 1: cannot read"),
        (b"500; 1; 0; 0\n1000, 1, 0, 0\n", "line 1: cannot read"),
        (b"500, 1,5, 0, 0\n1000, 1, 0, 0\n", "line 1: cannot read"),
        (b"501, 0, 8192, " + b"0, " * 1215 + b"0\n501, 0, 0, 0\n", "histogram"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        parse_fio_log(raw)


def test_the_name_of_a_log_gives_its_figure_and_unit() -> None:
    names = ["out_bw.1.log", "out_iops.log", "a_clat.12.log", "out_clat_hist.1.log", "server.log"]

    assert [log_unit(name) for name in names] == [("bw", "KiB/s"), ("iops", "IOPS"), ("clat", "ns"), None, None]

"""What pgbench's outputs and logs say in cases of which there is no sample."""

from __future__ import annotations

import random

import pytest

from common.errors import FormatError
from readers.pgbench.aggregate import AggregateLog, merge, parse_aggregate
from readers.pgbench.log import LAG, LAG_OR_RETRIES, RETRIES, parse_log
from readers.pgbench.stderr import parse_stderr
from readers.pgbench.summary import parse_summary
from tests.contract.test_formats import SAMPLES


def test_an_unfinished_progress_line_is_reported_and_left_out() -> None:
    whole = b"progress: 1.0 s, 700.0 tps, lat 1.400 ms stddev 0.200\n"

    parsed = parse_stderr(whole + b"progress: 2.0 s, 71")

    assert [one.tps for one in parsed.progress] == [700.0]
    assert parsed.cut


def test_a_report_whose_last_script_is_missing_is_refused() -> None:
    whole = (SAMPLES / "pgbench-15-two_scripts.out").read_bytes()

    with pytest.raises(FormatError, match="some scripts are missing"):
        parse_summary(whole[: whole.index(b"SQL script 2")])


def log_of(latencies: list[int]) -> bytes:
    return b"".join(b"0 %d %d 0 1795221691 7\n" % pair for pair in enumerate(latencies))


def test_percentiles_of_a_log_are_within_one_percent() -> None:
    generator = random.Random(7)
    latencies = sorted(int(generator.lognormvariate(7, 2)) for _ in range(20_000))

    percentiles = parse_log(log_of(latencies)).percentiles_us

    assert list(percentiles) == ["p50", "p90", "p95", "p99", "p99.9"]
    for name, us in percentiles.items():
        exact = latencies[round(float(name[1:]) / 100 * len(latencies)) - 1]
        assert us == pytest.approx(exact, rel=0.01, abs=0.5)


def test_the_seventh_column_is_a_lag_only_where_the_log_shows_it() -> None:
    unclear, skipping = b"0 1 500 0 1795221691 7 3\n", b"0 2 skipped 0 1795221691 8 9\n"

    assert parse_log(unclear).extra_names == (LAG_OR_RETRIES,)
    assert parse_log(unclear + skipping).extra_names == (LAG,)
    assert parse_log(b"0 1 500 0 1795221691 7 3 2\n").extra_names == (LAG, RETRIES)


def test_an_unfinished_last_transaction_is_reported_and_left_out() -> None:
    whole = log_of([10, 20])

    parsed = parse_log(whole + b"0 3 30 0 1795221")

    assert (parsed.transactions, parsed.latency_us.high, parsed.cut) == (2, 20, True)
    assert not parse_log(whole).cut


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"0 2 -5 0 1795221691 7", "line 2: cannot read"),
        (b"0 2 5,5 0 1795221691 7", "line 2: cannot read"),
        (b"0 2 lost 0 1795221691 7", "line 2: cannot read"),
        (b"0 2 5 0 1795221691 7 1", "7 columns after 6"),
    ],
)
def test_a_line_that_pgbench_does_not_write_is_refused_with_its_number(line: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_log(log_of([1]) + line + b"\n")


def aggregate(*lines: str) -> AggregateLog:
    return parse_aggregate("".join(f"{line}\n" for line in lines).encode())


def test_the_logs_of_two_threads_are_merged_by_interval() -> None:
    first = aggregate("1795221741 2 30 500 10 20", "1795221742 1 5 25 5 5")
    second = aggregate("1795221741 1 40 1600 40 40")

    merged = merge([first, second])

    one, other = merged.intervals
    assert (one.transactions, one.latency_sum_us, one.latency_sum2_us2) == (3, 70, 2100)
    assert (one.latency_min_us, one.latency_max_us, one.lag_sum_us) == (10, 40, None)
    assert (one.logs, other.logs, merged.logs) == (2, 1, 2)
    assert merged.transactions == 4


def test_an_interval_without_transactions_has_no_extremes_to_merge() -> None:
    busy = aggregate("1795221741 2 30 500 10 20 4 10 1 3 0 0 0 0 0")
    idle = aggregate("1795221741 0 0 0 0 0 0 0 0 0 0 0 0 0 0")

    (merged,) = merge([idle, busy]).intervals

    assert (merged.latency_min_us, merged.latency_max_us, merged.lag_min_us, merged.lag_max_us) == (10, 20, 1, 3)


def test_mean_and_deviation_of_an_interval() -> None:
    (interval,) = aggregate("1795221741 2 40 1000 10 30").intervals

    assert (interval.latency_avg_us, interval.latency_stddev_us) == (20, 10)


def test_logs_of_different_options_are_not_merged() -> None:
    with pytest.raises(FormatError, match="different columns"):
        merge([aggregate("1795221741 2 30 500 10 20"), aggregate("1795221741 2 30 500 10 20 1 1 1 1")])


def test_logs_that_were_put_into_one_file_are_refused() -> None:
    with pytest.raises(FormatError, match="line 2: 1795221741 follows 1795221741"):
        aggregate("1795221741 2 30 500 10 20", "1795221741 2 30 500 10 20")


def test_an_unfinished_last_interval_is_reported_and_left_out() -> None:
    parsed = parse_aggregate(b"1795221741 2 30 500 10 20\n1795221742 2 30 5")

    assert (parsed.transactions, parsed.cut, parsed.interval_s) == (2, True, None)

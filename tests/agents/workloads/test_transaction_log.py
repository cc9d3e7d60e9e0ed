"""Reduced logs of transactions: their counts, their accuracy, and the disk space during the run."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from agents.wire.histogram import Histogram, bucket_of, middle_of
from agents.workloads import transaction_log
from agents.workloads.transaction_log import LogFiles, Reduction, Slots

SAMPLES = Path(__file__).parents[2] / "samples"
PLAIN = {"rate": False, "tries": False}


def reduced(log: bytes, *, rate: bool = False, tries: bool = False) -> dict[str, Any]:
    reduction = Reduction(rate=rate, tries=tries)
    reduction.read(log)
    return reduction.as_json(["first", "second"], loop="open" if rate else "closed", sampling_rate=1)


def test_the_middle_of_a_bucket_differs_from_its_values_by_at_most_one_in_256() -> None:
    values = [*range(1000), *(random.Random(1).randrange(1 << 40) for _ in range(20_000))]

    assert all(abs(middle_of(bucket_of(value)) - value) <= value / 256 for value in values)
    assert [middle_of(bucket_of(value)) for value in range(256)] == list(range(256))
    ordered = sorted(values)
    assert [bucket_of(value) for value in ordered] == sorted(bucket_of(value) for value in values)


@pytest.mark.parametrize("percent", [50, 90, 95, 99, 99.9, 99.99, 100])
def test_percentiles_are_those_of_the_values(percent: float) -> None:
    draw = random.Random(2)
    values = sorted(int(draw.lognormvariate(6, 1)) for _ in range(50_000))
    histogram = Histogram()
    histogram.add(values, [1] * len(values))

    exact = values[max(0, -(-int(percent * 1000) * len(values) // 100_000) - 1)]
    assert histogram.percentile(percent) == pytest.approx(exact, rel=0.004)
    assert (histogram.low, histogram.high, histogram.sum) == (values[0], values[-1], sum(values))


def test_histograms_can_be_added_and_read_from_json() -> None:
    one, other, both = Histogram(), Histogram(), Histogram()
    one.add([5, 700], [2, 1])
    other.add([1_000_000], [4])
    both.add([5, 700, 1_000_000], [2, 1, 4])

    one.merge(other)

    assert one.as_json() == both.as_json() == Histogram.from_json(both.as_json()).as_json()


def test_each_script_has_its_own_latencies() -> None:
    log = b"0 1 100 0 1700000000 1\n1 1 900 1 1700000000 2\n0 2 200 0 1700000001 3\n"

    summary = reduced(log)

    assert [(each["name"], each["count"], each["max"]) for each in summary["scripts"]] == [
        *[("first", 2, 200), ("second", 1, 900)]
    ]
    assert (summary["all"]["count"], summary["all"]["sum"], summary["lines"], summary["unread"]) == (3, 1200, 3, 0)
    assert [second for second, _ in summary["slots"]["rows"]] == [1700000000, 1700000001]


def test_words_are_counted_and_have_no_latency() -> None:
    log = b"".join(
        b"0 %d %s 0 1700000000 1 %d 2\n" % (number, word, lag)
        for number, (word, lag) in enumerate(
            [(b"skipped", 0), (b"failed", 5), (b"serialization", 6), (b"deadlock", 7), (b"50", 9)]
        )
    )

    summary = reduced(log, rate=True, tries=True)

    assert summary["all"]["words"] == {"skipped": 1, "failed": 1, "serialization": 1, "deadlock": 1}
    assert (summary["all"]["count"], summary["all"]["max"]) == (1, 50)
    assert (summary["lag"]["count"], summary["lag"]["max"]) == (4, 9)  # what was skipped lagged behind nothing
    assert (summary["retried"], summary["retries"]) == (5, 10)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"1 1 1700\n", "cut"),
        (b"0 2 abc 0 1700000000 1\n", "no latency"),
        (b"0 2 5 x 1700000000 1\n0 1\n", "no script"),
        (b"\xff\xfe\n", "no text"),
    ],
)
def test_damaged_lines_are_counted_apart(line: bytes, what: str) -> None:
    summary = reduced(b"0 1 100 0 1700000000 1\n" + line + b"0 3 300 0 1700000000 9\n")

    assert summary["all"]["count"] == 2
    assert summary["unread"] == line.count(b"\n")


def test_a_clock_that_was_set_back_makes_no_negative_latency() -> None:
    assert reduced(b"0 1 -5 0 1700000000 1\n")["all"]["min"] == 0


def test_long_runs_have_wider_slots() -> None:
    slots = Slots()
    for second in range(10_000):
        slots.add(1_700_000_000 + second, {bucket_of(1000, transaction_log.SLOT_BITS): 2})

    rows = list(slots.rows())

    assert slots.width_s == 4 and len(rows) <= transaction_log.SLOTS
    assert sum(times for _, row in rows for _, times in row) == 20_000


def lines(count: int, thread: int = 0) -> bytes:
    return b"".join(b"%d %d %d 0 1700000000 %06d\n" % (thread, number, number, number) for number in range(count))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_log, "CHUNK", 16 << 10)


def test_space_of_lines_already_read_is_freed_while_the_log_grows(tmp_path: Path, small_chunks: None) -> None:
    reduction, log = Reduction(**PLAIN), tmp_path / "transactions.7"
    files = LogFiles(tmp_path / "transactions", reduction, pytest.fail)
    log.write_bytes(lines(5000))
    size = log.stat().st_size

    files.poll(elapsed_s=60)

    assert log.stat().st_size == size
    assert log.stat().st_blocks * 512 <= 24 << 10  # the last chunk, which is not whole, and its first block
    with log.open("ab") as file:
        file.write(lines(10))
    files.finish(lambda done: None)
    assert (reduction.lines, reduction.unread, reduction.all.high) == (5010, 0, 4999)
    assert not log.exists()


def test_reading_the_log_takes_no_more_than_its_share_of_time(tmp_path: Path, small_chunks: None) -> None:
    reduction = Reduction(**PLAIN)
    files = LogFiles(tmp_path / "transactions", reduction, pytest.fail)
    (tmp_path / "transactions.7").write_bytes(lines(5000))

    files.poll(elapsed_s=0)

    assert reduction.lines == 0


def test_threads_have_files_of_their_own_and_a_cut_end_is_counted(tmp_path: Path) -> None:
    reduction = Reduction(**PLAIN)
    (tmp_path / "transactions.7").write_bytes(lines(30))
    (tmp_path / "transactions.7.1").write_bytes(lines(20, thread=1) + b"1 21 5")

    LogFiles(tmp_path / "transactions", reduction, pytest.fail).finish(lambda done: None)

    assert (reduction.lines, reduction.unread) == (50, 1)


def test_a_file_system_without_hole_punching_is_reported_once(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, length: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(transaction_log, "punch", refuse)
    warnings: list[str] = []
    reduction = Reduction(**PLAIN)
    (tmp_path / "transactions.7").write_bytes(lines(5000))

    files = LogFiles(tmp_path / "transactions", reduction, warnings.append)
    files.poll(elapsed_s=60)
    files.finish(lambda done: None)

    assert len(warnings) == 1 and "Operation not supported" in warnings[0]
    assert reduction.lines == 5000


def test_reducing_can_be_stopped_and_reports_progress(tmp_path: Path, small_chunks: None) -> None:
    (tmp_path / "transactions.7").write_bytes(lines(5000))
    shares: list[float] = []

    def report_progress(done: float) -> None:
        shares.append(done)
        if done > 0.5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        LogFiles(tmp_path / "transactions", Reduction(**PLAIN), pytest.fail).finish(report_progress)

    assert shares == sorted(shares) and 0.5 < shares[-1] < 0.7


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(lines(3))
    os.symlink(secret, tmp_path / "transactions.7")

    with pytest.raises(OSError, match="symbolic"):
        LogFiles(tmp_path / "transactions", Reduction(**PLAIN), pytest.fail).finish(lambda done: None)

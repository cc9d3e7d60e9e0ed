"""pg_test_fsync and pg_test_timing: languages, the nanoseconds of 19, and what a cut output says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import FormatError
from readers.postgres.pg_test_fsync import TABLES, Rate, parse_pg_test_fsync
from readers.postgres.pg_test_timing import Bucket, Duration, parse_pg_test_timing

SAMPLES = Path(__file__).parents[1] / "samples"
FSYNC = (SAMPLES / "pg_test_fsync-15.out").read_text()
TIMING = (SAMPLES / "pg_test_timing-15-de_DE.out").read_text()

# Words of the program's own translations.
RUSSIAN = {
    "1 second per test": "на тест отводится 1 сек.",
    "ops/sec": "оп/с   ",
    "usecs/op": "мкс/оп",
    "n/a": "н/д",
    " 1 * 16kB open_sync write ": "запись с open_sync  1 * 16 КБ",
    " 2 *  8kB open_sync writes": "запись с open_sync  2 *  8 КБ",
}
SWEDISH = {
    "n/a": "ej tillämpbar",
    "ops/sec": "ops/sek",
    "usecs/op": "useks/op",
    "open_sync writes": "open_sync skrivning",
}
PORTUGUESE = {" 1 * 16kB open_sync write": " 1 * escrita de 16kB open_sync", "ops/sec": "ops/seg"}

NINETEEN = """\
Testing timing overhead for 3 seconds.

System clock source: clock_gettime (CLOCK_MONOTONIC)
Average loop time including overhead: 44.67 ns
Histogram of timing durations:
              <= ns   % of total  running %      count
                  0       0.0000     0.0000          0
                 31      25.0000    25.0000     500000
                 63      75.0000   100.0000    1500000

Observed timing durations up to 99.9900%:
                 ns   % of total  running %      count
                 30      25.0000    25.0000     500000
                 41      74.9999    99.9999    1499999
...
           29657159       0.0000   100.0000          1

Fast clock source: RDTSC
Average loop time including overhead: 20.12 ns
Histogram of timing durations:
              <= ns   % of total  running %      count
                 31     100.0000   100.0000    2000000

TSC frequency in use: 2400000 kHz
TSC clock source will be used by default, unless timing_clock_source is set to 'system'.
"""


@pytest.mark.parametrize("translations", [RUSSIAN, SWEDISH, PORTUGUESE], ids=["ru", "sv", "pt_BR"])
def test_fsync_is_read_in_any_language(translations: dict[str, str]) -> None:
    translated = FSYNC
    for english, word in translations.items():
        assert english in translated
        translated = translated.replace(english, word)

    assert parse_pg_test_fsync(translated.encode()) == parse_pg_test_fsync(FSYNC.encode())


def test_repeated_methods_are_distinguished_by_their_table() -> None:
    report = parse_pg_test_fsync(FSYNC.encode())

    assert report.table("one_write")["fsync"] == Rate("one_write", "fsync", 9375.894, 107)
    assert report.table("two_writes")["fsync"] == Rate("two_writes", "fsync", 8144.721, 123)
    assert report.table("one_write")["fsync_writethrough"].ops_per_s is None
    assert {table: len(report.table(table)) for table in TABLES} == dict(zip(TABLES, (5, 5, 5, 2, 1), strict=True))


def test_a_method_that_the_file_system_cannot_do_refers_to_the_footnote() -> None:
    note = "* This file system and its mount options do not support direct\n  I/O, e.g. ext4 in journaled mode.\n"
    head, _, rest = FSYNC.partition("        fdatasync")
    first = head.replace("10479.491 ops/sec      95 usecs/op", "             n/a*")
    changed = f"{first}        fdatasync{rest}".replace(
        "\nCompare file sync methods using two", f"{note}\nCompare two", 1
    )

    report = parse_pg_test_fsync(changed.encode())

    assert report.footnote and not report.missing
    assert report.table("one_write")["open_datasync"] == Rate("one_write", "open_datasync", None, None)


@pytest.mark.parametrize("name", ["pg_test_fsync-15.out", "pg_test_fsync-15-fr_FR.out", "pg_test_timing-15-fr_FR.out"])
def test_an_output_cut_anywhere_is_refused_or_says_what_is_missing(name: str) -> None:
    parse = parse_pg_test_fsync if "fsync" in name else parse_pg_test_timing
    raw = (SAMPLES / name).read_bytes()
    # A row of timings whose share is rounded to nothing leaves no trace.
    end = raw.rindex(b"write") if "fsync" in name else raw.index(b" 32768")

    for length in range(end):
        try:
            report = parse(raw[:length])
        except FormatError:
            continue
        assert report.missing or report == parse(raw), raw[:length][-60:]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("10241.416 ops/sec", "1O241.416 ops/sec", "line 7: cannot read"),
        ("10241.416 ops/sec", "10,241.416 ops/sec", "line 7: cannot read"),
        ("10241.416 ops/sec", "10241416 ops/sec ", "line 7: cannot read"),
        ("        fdatasync  ", "        fsync      ", "line 8: fsync does not belong in table one_write"),
        ("        write, fsync, close", "        write, fsync, done ", "does not belong in table non_write_fd"),
        ("Compare file sync methods using one", "        fsync  1.000 ops/sec 1 usecs/op\nCompare", "does not belong"),
    ],
)
def test_an_edited_fsync_output_is_refused_with_its_place(old: str, new: str, why: str) -> None:
    assert old in FSYNC

    with pytest.raises(FormatError, match=why):
        parse_pg_test_fsync(FSYNC.replace(old, new, 1).encode())


def test_two_fsync_outputs_in_one_file_are_refused() -> None:
    with pytest.raises(FormatError, match="give one report at a time"):
        parse_pg_test_fsync((FSYNC + FSYNC).encode())


def test_release_19_has_nanoseconds_of_each_clock_source() -> None:
    report = parse_pg_test_timing(NINETEEN.encode())

    system, fast = report.clocks
    assert (report.seconds, report.per_loop_ns, report.missing) == (3, 44.67, ())
    assert system.source == "clock_gettime (CLOCK_MONOTONIC)"
    assert system.histogram == (Bucket(1, 0.0, 0), Bucket(32, 25.0, 500000), Bucket(64, 75.0, 1500000))
    assert system.durations[-1] == Duration(29657159, 0.0, 1) and len(system.durations) == 3
    assert (fast.source, fast.per_loop_ns, len(fast.histogram), fast.durations) == ("RDTSC", 20.12, 1, ())
    assert report.tsc[0] == "TSC frequency in use: 2400000 kHz"


def test_up_to_18_the_histogram_is_in_microseconds() -> None:
    report = parse_pg_test_timing(TIMING.encode())

    assert report.histogram[:2] == (Bucket(1000, 97.52455, 38507345), Bucket(2000, 2.47244, 976237))
    assert report.clocks[0].source is None and not report.missing


@pytest.mark.parametrize(
    ("old", "new"), [("     4        0,00147        579\n", ""), ("38507345", "3850734"), ("97,52455", "77,52455")]
)
def test_a_histogram_whose_shares_are_not_its_counts_is_not_whole(old: str, new: str) -> None:
    assert old in TIMING

    assert parse_pg_test_timing(TIMING.replace(old, new).encode()).missing == ("histogram of the clock",)


def test_a_truncated_last_row_is_left_out_and_reported() -> None:
    cut = TIMING[: TIMING.index("   512  ")] + "   512        0,00"

    assert parse_pg_test_timing(cut.encode()).missing == ("the last line",)


def test_a_clock_that_went_back_leaves_no_report() -> None:
    with pytest.raises(FormatError, match="no loop time"):
        parse_pg_test_timing(b"Testing timing overhead for 3 seconds.\n")


def test_an_edited_timing_row_is_refused_with_its_place() -> None:
    with pytest.raises(FormatError, match="line 6: cannot read"):
        parse_pg_test_timing(TIMING.replace("2,47244     976237", "2,47244     lots").encode())

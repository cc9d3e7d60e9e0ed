"""Checkpoints of a server's log: what 10 to 18 print, and what a torn or foreign log yields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from readers.postgres.server_log import Checkpoint, parse_checkpoints

V15 = b"""1795273629.416 [24550] LOG:  checkpoint starting: immediate force wait wal
1795273629.807 [24550] LOG:  checkpoint complete: wrote 898 buffers (5.5%); 0 WAL file(s) added, 0 removed, 1 recycled; write=0.032 s, sync=0.328 s, total=0.392 s; sync files=33, longest=0.095 s, average=0.010 s; distance=12525 kB, estimate=12999 kB
1795273632.959 [24550] LOG:  checkpoints are occurring too frequently (3 seconds apart)
1795273632.959 [24550] HINT:  Consider increasing the configuration parameter "max_wal_size".
1795273632.959 [24550] LOG:  checkpoint starting: wal
1795273634.132 [24549] LOG:  received fast shutdown request
1795273634.560 [24550] LOG:  checkpoint complete: wrote 2075 buffers (12.7%); 0 WAL file(s) added, 0 removed, 1 recycled; write=1.180 s, sync=0.371 s, total=1.602 s; sync files=50, longest=0.191 s, average=0.008 s; distance=16433 kB, estimate=16433 kB
"""  # noqa: E501
V18 = b"""1795273652.106 [24832] LOG:  checkpoint starting: wal
1795273653.831 [24832] LOG:  checkpoint complete: wrote 1886 buffers (11.5%), wrote 2 SLRU buffers; 0 WAL file(s) added, 0 removed, 1 recycled; write=1.685 s, sync=0.012 s, total=1.725 s; sync files=10, longest=0.003 s, average=0.002 s; distance=16327 kB, estimate=19690 kB; lsn=0/AEF1970, redo lsn=0/A000D00
"""  # noqa: E501


def test_checkpoints_of_15_are_paired_with_their_reason_and_figures() -> None:
    first, second = parse_checkpoints(V15)

    assert first == Checkpoint(
        kind="checkpoint",
        began=1795273629.416,
        ended=1795273629.807,
        reason="immediate force wait wal",
        buffers=898,
        buffers_percent=5.5,
        write_s=0.032,
        sync_s=0.328,
        total_s=0.392,
        distance_kb=12525,
    )
    assert (second.reason, second.buffers, second.total_s) == ("wal", 2075, 1.602)


def test_18_counts_slru_buffers_apart() -> None:
    (only,) = parse_checkpoints(V18)

    assert (only.buffers, only.buffers_percent, only.write_s, only.distance_kb) == (1886, 11.5, 1.685, 16327)


@pytest.mark.parametrize(
    ("prefix", "seconds"),
    [
        (b"2026-11-21 15:00:00.250 UTC [7] LOG:  ", 1795273200.25),
        (b"2026-11-21 15:00:00 GMT [7-1] user=,db= LOG:  ", 1795273200.0),
        (b"1795273200.250 LOG:  00000: ", 1795273200.25),
    ],
)
def test_prefixes_with_a_time_are_read(prefix: bytes, seconds: float) -> None:
    (only,) = parse_checkpoints(prefix + b"restartpoint starting: time\r\n")

    assert (only.kind, only.began, only.ended, only.reason) == ("restartpoint", seconds, None, "time")


@pytest.mark.parametrize(
    "line",
    [
        b"2026-11-21 15:00:00.250 CET [7] LOG:  checkpoint starting: time",
        b"2026-13-41 15:00:00.250 UTC [7] LOG:  checkpoint starting: time",
        b"LOG:  checkpoint starting: time",
        b"1795273200.2 [7] LOG:  checkpoint complet",
        b"",
    ],
)
def test_lines_without_a_time_or_cut_ones_are_passed_over(line: bytes) -> None:
    assert parse_checkpoints(line) == ()


def test_a_checkpoint_without_its_other_half_is_marked() -> None:
    starting, complete, _ = V18.split(b"\n")

    begun_before, unfinished, last = parse_checkpoints(b"\n".join([complete, starting, starting, b""]))

    assert (begun_before.began, begun_before.buffers) == (None, 1886)
    assert (unfinished.ended, last.ended, last.buffers) == (None, None, None)


@given(some.lists(some.sampled_from([*V15.split(b"\n"), *V18.split(b"\n"), b"\x00\xff"])))
def test_lines_in_any_order_yield_checkpoints_or_nothing(lines: list[bytes]) -> None:
    checkpoints = parse_checkpoints(b"\n".join(lines))

    assert len(checkpoints) <= len(lines)


@given(some.binary(max_size=2000))
def test_any_bytes_are_a_log(raw: bytes) -> None:
    parse_checkpoints(V18 + raw)

"""Logs of several fio jobs as one series: sums and means per second, at any interval of the jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.workloads.fio_logs import entries, fold

BEGAN = 1_700_000_000


def lines(offset: float, values: list[float], direction: int = 0) -> str:
    """One job's log, its lines `offset` s after whole seconds."""
    times = [int((BEGAN + offset + place + 1) * 1000) for place in range(len(values))]
    return "".join(f"{ms}, {value:g}, {direction}, 0, 0\n" for ms, value in zip(times, values, strict=True))


def columns(directory: Path, *names: str, **options: bool) -> dict[str, list[float]]:
    return dict(fold(directory, list(names), **options)["columns"])


def test_rates_of_jobs_are_added_and_latencies_averaged(tmp_path: Path) -> None:
    (tmp_path / "0_bw.log").write_text(lines(0, [100, 200]) + lines(0, [10, 20]))
    (tmp_path / "0_lat.log").write_text(lines(0, [1e6, 2e6]) + lines(0, [3e6, 4e6]))

    by_column = columns(tmp_path, "a")

    assert by_column["read_bw"] == [110, 220] and by_column["read_lat"] == [2, 3]
    assert by_column["t"] == [BEGAN + 1, BEGAN + 2]


def test_jobs_that_do_not_tick_together_make_no_dips(tmp_path: Path) -> None:
    (tmp_path / "0_iops.log").write_text("".join(lines(beat, [100] * 9) for beat in (0.0, 0.25, 0.5, 0.9)))

    assert columns(tmp_path, "a")["read_iops"] == pytest.approx([400] * 9)


def test_directions_are_distinguished_and_sections_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "0_bw.log").write_text(lines(0, [5, 5]) + lines(0, [7, 7], direction=1))
    (tmp_path / "1_bw.log").write_text(lines(3, [9], direction=2))

    folded = fold(tmp_path, ["first", "second"])

    assert folded["columns"]["read_bw"] == [5, 5, None]
    assert folded["columns"]["write_bw"] == [7, 7, None] and folded["columns"]["trim_bw"] == [None, None, 9]
    assert folded["spans"] == [
        {"name": "first", "began": BEGAN, "ended": BEGAN + 2},
        {"name": "second", "began": BEGAN + 3, "ended": BEGAN + 4},
    ]


def test_sections_at_the_same_time_share_their_seconds(tmp_path: Path) -> None:
    for number, value in enumerate((30, 50)):
        (tmp_path / f"{number}_bw.log").write_text(lines(0, [value]))
        (tmp_path / f"{number}_lat.log").write_text(lines(0, [value * 1e6]))

    by_column = columns(tmp_path, "a", "b")

    assert (by_column["read_bw"], by_column["read_lat"]) == ([80], [40])


def test_before_3_0_latencies_were_microseconds(tmp_path: Path) -> None:
    (tmp_path / "0_lat.log").write_text(lines(0, [2500]))

    assert columns(tmp_path, "a", microseconds=True)["read_lat"] == [2.5]


def test_lines_that_were_cut_are_left_out() -> None:
    assert list(entries(["1000, 5, 0, 0, 0\n", "2000, 6\n", "", "3000, 7, 1, 40"])) == [(1.0, 5, 0), (3.0, 7, 1)]

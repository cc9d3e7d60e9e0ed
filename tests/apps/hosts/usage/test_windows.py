"""Weekly maintenance windows in a time zone, also on days when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.hosts.usage.windows import Calendar, local_time, read
from common.errors import PlanError

HOUR = 3600.0
NIGHTS = {"days": [0, 1, 2, 3, 4], "from": "20:00", "to": "06:00"}
WEEKEND = {"days": [5, 6], "from": "00:00", "to": "24:00"}
MONDAY_NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def calendar(*windows: dict[str, Any], zone: str = "UTC") -> Calendar:
    return read(list(windows), zone)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def test_without_windows_a_run_begins_at_once() -> None:
    assert calendar().begin(MONDAY_NOON, 100 * HOUR) == MONDAY_NOON
    assert calendar().fits(MONDAY_NOON, 1000 * HOUR)


def test_outside_of_a_window_a_run_waits_for_the_next_one() -> None:
    assert calendar(NIGHTS).begin(MONDAY_NOON, HOUR) == utc(2026, 6, 1, 20)


def test_a_window_may_end_on_the_next_day() -> None:
    at_two = utc(2026, 6, 2, 2)

    assert calendar(NIGHTS).begin(at_two, HOUR) == at_two
    assert calendar(NIGHTS).open_until(at_two) == utc(2026, 6, 2, 6)


@pytest.mark.parametrize(("hours", "begins"), [(1, utc(2026, 6, 2, 5)), (1.01, utc(2026, 6, 2, 20))])
def test_a_run_must_fit_into_the_rest_of_the_window(hours: float, begins: datetime) -> None:
    assert calendar(NIGHTS).begin(utc(2026, 6, 2, 5), hours * HOUR) == begins


def test_windows_that_touch_are_one() -> None:
    """Friday's night, Saturday and Sunday: a run of two days fits."""
    both = calendar(NIGHTS, WEEKEND)

    spans = list(islice(both.spans(utc(2026, 6, 5, 12)), 2))

    assert spans[0] == (utc(2026, 6, 5, 20), utc(2026, 6, 8, 0))
    assert spans[1] == (utc(2026, 6, 8, 20), utc(2026, 6, 9, 6))
    assert both.begin(utc(2026, 6, 1, 12), 50 * HOUR) == utc(2026, 6, 5, 20)


def test_a_run_that_fits_into_no_window_begins_in_the_first_half_of_one() -> None:
    late = utc(2026, 6, 2, 2)

    assert not calendar(NIGHTS).fits(late, 11 * HOUR)
    assert calendar(NIGHTS).begin(late, 11 * HOUR) == utc(2026, 6, 2, 20)
    assert calendar(NIGHTS).begin(utc(2026, 6, 2, 0), 11 * HOUR) == utc(2026, 6, 2, 0)


def test_a_window_is_of_the_hosts_own_time_zone() -> None:
    athens = calendar(NIGHTS, zone="Europe/Athens")

    assert athens.begin(MONDAY_NOON, HOUR) == utc(2026, 6, 1, 17)
    assert athens.begin(utc(2026, 1, 5, 12), HOUR) == utc(2026, 1, 5, 18)


SUNDAYS = {"days": [6], "from": "01:00", "to": "05:00"}


@pytest.mark.parametrize(
    ("day", "hours"),
    [((2026, 3, 29), 3.0), ((2026, 10, 25), 5.0), ((2026, 6, 7), 4.0)],
    ids=["an hour is missing", "an hour comes twice", "an ordinary day"],
)
def test_a_window_lasts_as_long_as_the_clock_on_the_wall_makes_it(day: tuple[int, ...], hours: float) -> None:
    """Europe/Berlin goes from 02:00 to 03:00 in March, and from 03:00 back to 02:00 in October."""
    berlin = calendar(SUNDAYS, zone="Europe/Berlin")
    midnight = datetime(*day, tzinfo=ZoneInfo("Europe/Berlin"))  # type: ignore[misc,arg-type]

    begin, end = next(berlin.spans(midnight))

    assert (end - begin) == timedelta(hours=hours)
    assert begin.astimezone(ZoneInfo("Europe/Berlin")).hour == 1


def test_a_run_of_four_hours_does_not_fit_into_a_night_that_is_one_hour_shorter() -> None:
    berlin = calendar(SUNDAYS, zone="Europe/Berlin")

    assert berlin.begin(utc(2026, 3, 28, 12), 4 * HOUR) == utc(2026, 4, 4, 23)


def test_a_beginning_that_the_clock_leaves_out_is_an_hour_later() -> None:
    early = calendar({"days": [6], "from": "02:30", "to": "06:00"}, zone="Europe/Berlin")

    assert early.begin(utc(2026, 3, 28, 12), HOUR) == utc(2026, 3, 29, 1, 30)


def test_of_a_time_that_comes_twice_the_first_counts() -> None:
    late = calendar({"days": [6], "from": "00:00", "to": "02:30"}, zone="Europe/Berlin")

    assert next(late.spans(utc(2026, 10, 24, 12))) == (utc(2026, 10, 24, 22), utc(2026, 10, 25, 0, 30))


def test_a_week_that_is_always_open_has_no_end() -> None:
    always = calendar({"days": list(range(7)), "from": "00:00", "to": "24:00"})

    assert always.begin(MONDAY_NOON, 200 * HOUR) == MONDAY_NOON


def test_runs_that_follow_each_other_are_packed_into_the_windows() -> None:
    """Ten hours a night: three runs of three hours each in a night, so that seven take three nights."""
    assert calendar(NIGHTS).following(MONDAY_NOON, 3 * HOUR, 7) == (utc(2026, 6, 1, 20), utc(2026, 6, 3, 23))
    assert calendar().following(MONDAY_NOON, 60, 10) == (MONDAY_NOON, MONDAY_NOON + timedelta(minutes=10))


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ("nights", "windows"),
        ([{"days": [0], "from": "20:00"}], "windows.0"),
        ([NIGHTS, {"days": [7], "from": "20:00", "to": "21:00"}], "windows.1.days"),
        ([{"days": [], "from": "20:00", "to": "21:00"}], "windows.0.days"),
        ([{"days": [True], "from": "20:00", "to": "21:00"}], "windows.0.days"),
        ([{"days": [0], "from": "25:00", "to": "21:00"}], "windows.0.from"),
        ([{"days": [0], "from": "24:00", "to": "21:00"}], "windows.0.from"),
        ([{"days": [0], "from": "20:00", "to": "8 pm"}], "windows.0.to"),
    ],
)
def test_an_invalid_window_is_refused_with_its_position(raw: Any, field: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(raw, "UTC")

    assert refused.value.subject == field
    assert refused.value.hint


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(PlanError, match="time_zone"):
        read([], zone)


def test_times_are_in_the_time_zone_of_the_host() -> None:
    athens = ZoneInfo("Europe/Athens")

    assert local_time(utc(2026, 6, 1, 15), athens, MONDAY_NOON) == "18:00 EEST"
    assert local_time(utc(2026, 6, 2, 17), athens, MONDAY_NOON) == "Tue 20:00 EEST"
    assert local_time(utc(2026, 6, 20, 17), athens, MONDAY_NOON) == "2026-06-20 20:00 EEST"


def test_windows_read_as_words() -> None:
    assert [str(window) for window in calendar(NIGHTS, WEEKEND).windows] == [
        "Mon to Fri 20:00 to 06:00",
        "Sat, Sun 00:00 to 24:00",
    ]

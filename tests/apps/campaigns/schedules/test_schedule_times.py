"""The times of a schedule, also when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from time import process_time

import pytest

from apps.campaigns.schedules import times
from common.errors import PlanError


def due(when: str, zone: str, after: str, count: int) -> list[str]:
    """The next times by the clock on the wall there."""
    moments = times.read(when, zone).next(datetime.fromisoformat(after).replace(tzinfo=UTC), count)
    return [f"{at:%a %m-%d %H:%M %Z}" for at in moments]


@pytest.mark.parametrize(
    ("when", "shown", "cron"),
    [
        ("daily 2:30", "daily 02:30", "30 2 * * *"),
        ("Weekly thursday, mon 02:30", "weekly Mon, Thu 02:30", "30 2 * * MON,THU"),
        ("monthly 1 02:30", "monthly 1 02:30", "30 2 1 * *"),
        ("monthly LAST 23:00", "monthly last 23:00", "0 23 L * *"),
        ("30 2 * * 1-5", "cron 30 2 * * 1-5", "30 2 * * 1-5"),
        ("cron  0 */6 * * *", "cron 0 */6 * * *", "0 */6 * * *"),
    ],
)
def test_words_become_a_cron_expression(when: str, shown: str, cron: str) -> None:
    parsed = times.read(when, "UTC")

    assert (parsed.when, parsed.cron) == (shown, cron)
    assert times.read(shown, "UTC") == parsed


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("", "is not a valid time of a schedule"),
        ("nightly", "is not a valid time of a schedule"),
        ("daily", "is not a valid time of a schedule"),
        ("daily 24:00", "is not a valid time of a schedule"),
        ("daily Mon 02:30", "is not a valid time of a schedule"),
        ("weekly 02:30", "is not a valid time of a schedule"),
        ("weekly Moo 02:30", "does not name a day of the week"),
        ("monthly 31 02:30", "does not name a day of the month"),
        ("monthly 1 2 02:30", "does not name a day of the month"),
        ("30 25 * * *", "bad hour"),
        ("0 30 2 * * *", "is not a valid time of a schedule"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("* * * * *", "occurs too often"),
        ("*/10 2 * * *", "occurs too often"),
    ],
)
def test_an_invalid_schedule_is_refused_with_the_accepted_forms(when: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        times.read_entered(when, "UTC")

    assert refused.value.subject == "when"
    assert refused.value.hint


def test_a_list_of_rare_schedules_is_read_without_a_search_for_all_their_times() -> None:
    begin = process_time()

    for _ in range(100):
        times.read("0 0 * 2 sun#5", "UTC")

    assert process_time() - begin < 1


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(PlanError, match="is not a time zone"):
        times.read("daily 02:30", "Europe/Atlantis")


def test_times_are_those_of_the_clock_on_the_wall() -> None:
    assert due("weekly Mon, Thu 02:30", "Europe/Berlin", "2026-03-25 12:00", 3) == [
        "Thu 03-26 02:30 CET",
        "Mon 03-30 02:30 CEST",
        "Thu 04-02 02:30 CEST",
    ]
    assert due("monthly last 02:30", "UTC", "2026-02-01", 3) == [
        "Sat 02-28 02:30 UTC",
        "Tue 03-31 02:30 UTC",
        "Thu 04-30 02:30 UTC",
    ]


@pytest.mark.parametrize(
    ("zone", "before", "expected"),
    [
        # 02:30 does not exist on 29 March in Berlin, nor on 8 March in New York.
        ("Europe/Berlin", "2026-03-27 12:00", ["Sat 03-28 02:30 CET", "Sun 03-29 03:00 CEST", "Mon 03-30 02:30 CEST"]),
        (
            "America/New_York",
            "2026-03-06 12:00",
            ["Sat 03-07 02:30 EST", "Sun 03-08 03:00 EDT", "Mon 03-09 02:30 EDT"],
        ),
        # 02:30 exists twice on 25 October in Berlin, 01:30 on 1 November in New York.
        ("Europe/Berlin", "2026-10-23 12:00", ["Sat 10-24 02:30 CEST", "Sun 10-25 02:30 CEST", "Mon 10-26 02:30 CET"]),
    ],
)
def test_a_time_that_does_not_exist_or_exists_twice_comes_once(zone: str, before: str, expected: list[str]) -> None:
    assert due("daily 02:30", zone, before, 3) == expected


def test_the_hour_that_exists_twice_in_new_york_comes_once() -> None:
    assert due("daily 01:30", "America/New_York", "2026-10-30 12:00", 3) == [
        "Sat 10-31 01:30 EDT",
        "Sun 11-01 01:30 EDT",
        "Mon 11-02 01:30 EST",
    ]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("when", ["daily 01:30", "daily 02:30", "cron 0,30 1,2,3 * * *", "cron 0 */2 * * *"])
def test_the_times_are_the_same_from_any_moment(zone: str, when: str) -> None:
    """Of three days around each change of the clock: asked from each quarter of an hour, no time is new or lost."""
    calendar = times.read(when, zone)
    for day in ("2026-03-07", "2026-03-28", "2026-10-24", "2026-10-31"):
        begin = datetime.fromisoformat(day).replace(tzinfo=UTC)
        known = list(islice(calendar.after(begin), 20))
        assert known == sorted(set(known))
        for place in range(3 * 24 * 4):
            at = begin + place * timedelta(minutes=15)
            later = [each for each in known if each > at]
            assert next(calendar.after(at)) == later[0] if later else True

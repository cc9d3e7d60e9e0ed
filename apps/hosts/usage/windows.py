"""The times at which runs may start on a host: weekly windows in its time zone. Pure: no clock, no database.

A window that ends at or before its start ends on the next day. Adjacent windows are merged. When the clock is set
back, the first of two equal times counts; a time that is skipped when the clock is set forward counts as one hour
later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from common.errors import PlanError

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOST = 50
# Limit for searches; a week without a closed time would have no end.
SEARCH_DAYS = 60
Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class Window:
    """A window on each of `days` (0 is Monday), from local time `begin`, for `length`."""

    days: tuple[int, ...]
    begin: time
    length: timedelta

    def on(self, day: date, zone: ZoneInfo) -> Span:
        """Return the window that starts on this day, in UTC."""
        begin = datetime.combine(day, self.begin)
        return _utc(begin, zone), _utc(begin + self.length, zone)

    def __str__(self) -> str:
        end = (datetime.combine(date.min, self.begin) + self.length).time()
        return f"{_days(self.days)} {self.begin:%H:%M} to {'24:00' if end == time.min else f'{end:%H:%M}'}"


@dataclass(frozen=True)
class Calendar:
    """Windows in a time zone. Without windows it is always open."""

    windows: tuple[Window, ...]
    zone: ZoneInfo

    def spans(self, at: datetime) -> Iterator[Span]:
        """Yield the open spans from `at` on, in order; the first one may have started before. Empty without windows."""
        current: Span | None = None
        today = at.astimezone(self.zone).date()
        for day in (today + timedelta(days=ahead) for ahead in range(-2, SEARCH_DAYS)):
            for begin, end in sorted(
                window.on(day, self.zone) for window in self.windows if day.weekday() in window.days
            ):
                if current and begin <= current[1]:
                    current = current[0], max(current[1], end)
                    continue
                if current and current[1] > at:
                    yield current
                current = begin, end
        if current and current[1] > at:
            yield current

    def open_until(self, at: datetime) -> datetime | None:
        """Return the end of the window that contains `at`; None outside of all windows."""
        first = next(self.spans(at), None)
        return first[1] if first and first[0] <= at else None

    def longest(self, at: datetime) -> timedelta | None:
        """Return the length of the longest future window; None if it is always open."""
        spans = list(self.spans(at))
        return max((end - begin for begin, end in spans), default=None)

    def fits(self, at: datetime, seconds: float) -> bool:
        """Return whether a run of this duration fits into any future window."""
        longest = self.longest(at)
        return longest is None or timedelta(seconds=seconds) <= longest

    def begin(self, at: datetime, seconds: float) -> datetime:
        """Return the first time from `at` on at which a run of this duration may start, so that it ends within the
        window.

        A run that fits into none starts in the first half of any window."""
        longest = self.longest(at)
        if longest is None:
            return at
        needed = timedelta(seconds=seconds)
        needed = needed if needed <= longest else longest / 2
        fitting = (max(begin, at) for begin, end in self.spans(at) if max(begin, at) + needed <= end)
        return next(fitting, at + timedelta(days=SEARCH_DAYS))

    def following(self, at: datetime, seconds: float, count: int) -> tuple[datetime, datetime]:
        """Return when the first of `count` consecutive runs starts, and when the last one ends."""
        first = self.begin(at, seconds)
        if not self.windows or seconds <= 0:
            return first, first + timedelta(seconds=seconds * count)
        begin, end = first, first
        while count > 0:
            closes = self.open_until(begin) or begin
            room = max(1, int((closes - begin) / timedelta(seconds=seconds)))
            end = begin + timedelta(seconds=seconds * min(room, count))
            count -= room
            begin = self.begin(end, seconds)
            if begin - first > timedelta(days=SEARCH_DAYS):
                break
        return first, end


def read(raw: Any, zone: str) -> Calendar:
    """Parse Host.windows and Host.time_zone. PlanError names the error and what is accepted."""
    if not isinstance(raw, list) or len(raw) > MOST:
        raise PlanError("windows", f"{raw!r:.80} is not a list of at most {MOST} windows", hint=HINT)
    return Calendar(tuple(_window(f"windows.{place}", each) for place, each in enumerate(raw)), _zone(zone))


HINT = '[{"days": [0, 1, 2, 3, 4], "from": "20:00", "to": "06:00"}], where 0 is Monday'


def _window(field: str, raw: Any) -> Window:
    if not isinstance(raw, Mapping) or set(raw) != {"days", "from", "to"}:
        raise PlanError(field, f"{raw!r:.80} is not a window", hint=HINT)
    days = raw["days"]
    if not isinstance(days, list) or not days or any(type(day) is not int or not 0 <= day <= 6 for day in days):
        raise PlanError(
            f"{field}.days", f"{days!r:.80} are not days", hint="accepted: one or more of 0 (Monday) to 6 (Sunday)"
        )
    begin, end = _minutes(f"{field}.from", raw["from"]), _minutes(f"{field}.to", raw["to"])
    if begin == 1440:
        raise PlanError(f"{field}.from", "24:00 is the end of a day", hint="use 00:00 of the next day")
    length = end - begin if end > begin else end - begin + 1440
    return Window(tuple(sorted(set(days))), time(*divmod(begin, 60)), timedelta(minutes=length))


def _minutes(field: str, raw: Any) -> int:
    """Parse a time of day as minutes since midnight."""
    parts = str(raw).split(":")
    if len(parts) == 2 and all(part.isdecimal() and part.isascii() for part in parts):
        hours, minutes = map(int, parts)
        if (hours < 24 and minutes < 60) or (hours, minutes) == (24, 0):
            return hours * 60 + minutes
    raise PlanError(field, f"{raw!r:.80} is not a time of day", hint="HH:MM, from 00:00 to 24:00")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        hint = "accepted: a name of the tz database, such as Europe/Athens or UTC"
        raise PlanError("time_zone", f"{name!r:.80} is not a time zone", hint=hint) from error


def _utc(local: datetime, zone: ZoneInfo) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)


def _days(days: tuple[int, ...]) -> str:
    """Return the days for users: "Mon to Fri", or "Mon, Wed"."""
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{DAYS[days[0]]} to {DAYS[days[-1]]}"
    return ", ".join(DAYS[day] for day in days)


def local_time(at: datetime, zone: ZoneInfo, now: datetime) -> str:
    """Return a time in the time zone of the host: "18:00" today, "Mon 20:00" within a week, else with its date."""
    local, today = at.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        text = f"{local:%H:%M}"
    elif abs(at - now) < timedelta(days=6):
        text = f"{DAYS[local.weekday()]} {local:%H:%M}"
    else:
        text = f"{local:%Y-%m-%d %H:%M}"
    return f"{text} {local.tzname()}"

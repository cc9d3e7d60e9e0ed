"""When a schedule is due: its words as a cron expression, in a time zone. Pure: no clock, no database.

A time that does not exist, when the clock is put forward, is the first moment after the gap. A time that exists twice,
when the clock is put back, is the first of the two. Expressions whose minutes or hours begin with a star follow the
elapsed time instead, as those of Debian's cron do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from apps.hosts.usage import windows
from common.errors import PlanError

HINT = "such as daily 02:30, weekly Mon, Thu 02:30, monthly 1 02:30, monthly last 02:30, or cron 30 2 * * 1-5"
CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
CRON_FIELDS = 5
LATEST_DAY = 28  # that every month has
LEAST_MIN = 15  # between two times
CHECKED_TIMES = 100  # times whose distance is checked
ANY = datetime(2026, 1, 1, tzinfo=UTC)  # for an expression that is only checked


@dataclass(frozen=True)
class Times:
    """`when` in its usual form, such as "weekly Mon, Thu 02:30", and the same as a cron expression."""

    when: str
    cron: str
    zone: ZoneInfo

    def after(self, at: datetime) -> Iterator[datetime]:
        """The times later than `at`, in UTC, in order, each once. Without end."""
        last = at
        for local in CronSim(self.cron, at.astimezone(self.zone)):
            utc = local.astimezone(UTC)
            if utc > last:
                yield utc
                last = utc

    def next(self, at: datetime, count: int) -> list[datetime]:
        """The first `count` times later than `at`, in the schedule's time zone."""
        return [each.astimezone(self.zone) for each in islice(self.after(at), count)]


def read_entered(when: str, time_zone: str) -> Times:
    """The same as `read`, for what a user enters. PlanError if it never occurs, or too often. Takes up to a second."""
    times = read(when, time_zone)
    occurrences = list(islice(times.after(ANY), CHECKED_TIMES))
    if not occurrences:
        raise PlanError("when", f"{when!r:.80} never occurs", hint=HINT)
    if min((b - a for a, b in pairwise(occurrences)), default=timedelta.max) < timedelta(minutes=LEAST_MIN):
        hint = f"times must be at least {LEAST_MIN} minutes apart"
        raise PlanError("when", f"{when!r:.80} occurs too often", hint=hint)
    return times


def read(when: str, time_zone: str) -> Times:
    """From Schedule.when and Schedule.time_zone. PlanError names what is wrong, and what is accepted."""
    zone = windows.read([], time_zone).zone
    tokens = when.replace(",", " ").split()
    kind = tokens[0].lower() if tokens else ""
    if kind in KINDS:
        return _parsed(Times(*KINDS[kind](tokens[1:], when), zone), when)
    fields = when.split()[1:] if kind == "cron" else when.split()
    if len(fields) != CRON_FIELDS:
        raise PlanError("when", f"{when!r:.80} is not a valid time of a schedule", hint=HINT)
    return _parsed(Times("cron " + " ".join(fields), " ".join(fields), zone), when)


def _daily(tokens: list[str], when: str) -> tuple[str, str]:
    hour, minute = _clock(tokens, 0, when)
    return f"daily {hour:02}:{minute:02}", f"{minute} {hour} * * *"


def _weekly(tokens: list[str], when: str) -> tuple[str, str]:
    hour, minute = _clock(tokens, 1, when)
    named = {word[:3].title() for word in tokens[:-1]}
    if not named <= set(windows.DAYS):
        raise PlanError(
            "when", f"{when!r:.80} does not name a day of the week", hint="one or more of " + ", ".join(windows.DAYS)
        )
    days = [day for day in windows.DAYS if day in named]
    return f"weekly {', '.join(days)} {hour:02}:{minute:02}", f"{minute} {hour} * * {','.join(days).upper()}"


def _monthly(tokens: list[str], when: str) -> tuple[str, str]:
    hour, minute = _clock(tokens, 1, when)
    day = tokens[0].lower()
    is_day = day.isdecimal() and day.isascii() and len(day) <= 2 and 1 <= int(day) <= LATEST_DAY
    if len(tokens) != 2 or not (is_day or day == "last"):
        hint = f"1 to {LATEST_DAY}, which every month has, or last"
        raise PlanError("when", f"{when!r:.80} does not name a day of the month", hint=hint)
    day = str(int(day)) if is_day else day
    return f"monthly {day} {hour:02}:{minute:02}", f"{minute} {hour} {day if is_day else 'L'} * *"


KINDS = {"daily": _daily, "weekly": _weekly, "monthly": _monthly}


def _clock(tokens: list[str], before: int, when: str) -> tuple[int, int]:
    """Hour and minute of the last word; at least (exactly, for none) `before` words stand before it."""
    match = CLOCK.fullmatch(tokens[-1]) if tokens else None
    if match is None or len(tokens) <= before or (before == 0 and len(tokens) > 1):
        raise PlanError("when", f"{when!r:.80} is not a valid time of a schedule", hint=HINT)
    return int(match[1]), int(match[2])


def _parsed(times: Times, when: str) -> Times:
    try:
        CronSim(times.cron, ANY)
    except CronSimError as error:
        raise PlanError("when", f"{when!r:.80}: {str(error).lower()}", hint=HINT) from error
    return times

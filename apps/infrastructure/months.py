"""Tables whose rows are kept by month, each month in a partition of its own. Dropping a month takes milliseconds and
leaves no dead rows, however many runs it had.

A row belongs to the month in which its run started, in UTC. So all rows of a run are in one partition, and a constraint
that includes the month is as strict as one that does not. Two more partitions catch the rest: `kept` has rows from
before there were partitions, and those that outlive their month; `other` has those of a month without a partition, so
that no row is ever refused.

PostgreSQL lets only the owner of a table change its partitions. The server's role has no such right: it calls functions
that the migration created, which can do no more than this."""

from __future__ import annotations

from datetime import UTC, date, datetime

from django.db import connection

KEPT = date(2000, 1, 1)  # the month of all rows in the partition `kept`
EVENTS, BLOCKS = "campaigns_runevent", "results_blocks"
TABLES = (EVENTS, BLOCKS)
AHEAD = 2  # months with a partition before they begin


def month_of(at: datetime | None) -> date:
    """Return the first day of the month of a time, in UTC; KEPT if there is none."""
    return at.astimezone(UTC).date().replace(day=1) if at else KEPT


def after(month: date, months: int = 1) -> date:
    """Return the first day of the month that is `months` later."""
    years, months = divmod(month.month - 1 + months, 12)
    return date(month.year + years, months + 1, 1)


def present() -> list[date]:
    """Return the months that have a partition in any of TABLES, the earliest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select distinct right(inhrelid::regclass::text, 7) from pg_inherits "
            r"where inhparent = any(%s::regclass[]) and inhrelid::regclass::text ~ '_\d{4}_\d\d$' order by 1",
            [list(TABLES)],
        )
        return [date(int(name[:4]), int(name[5:]), 1) for (name,) in cursor.fetchall()]


def add(now: datetime) -> list[date]:
    """Create the partitions of this month and of AHEAD further ones that are missing. Returns the months of new
    ones."""
    added = []
    for ahead in range(AHEAD + 1):
        month = after(month_of(now), ahead)
        are_new = [_call("add_month", table, month) for table in TABLES]
        added += [month] if any(are_new) else []
    return added


def drop(table: str, month: date) -> None:
    """Drop the partition of a month with all its rows. PostgreSQL refuses the present month and later ones."""
    _call("drop_month", table, month)


def analyze() -> None:
    """Gather statistics of whole tables for the planner. Autovacuum only gathers those of each partition."""
    for table in TABLES:
        _call("analyze", table)


def _call(function: str, *arguments: str | date) -> bool:
    places = ", ".join(["%s"] * len(arguments))
    with connection.cursor() as cursor:
        cursor.execute(f"select proving_{function}({places})", arguments)
        return bool(cursor.fetchone()[0])

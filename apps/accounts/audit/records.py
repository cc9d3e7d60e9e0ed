"""SELECT only: the audit log, filtered, and as lines of CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import AuditEntry
from apps.request_values import first_moment, last_moment
from common.errors import PlanError
from readers.table import disarmed

HEAD = ("at", "actor", "action", "target", "before", "after")
SYSTEM = "system"


@dataclass(frozen=True)
class Filters:
    """Filters of the log; "" selects all. `person` "system" selects actions without a user; `until` is the last day."""

    person: str = ""
    action: str = ""
    target: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, params: Any) -> Filters:
        return cls(**{name: params.get(name, "").strip() for name in cls.__dataclass_fields__})


def entries(filters: Filters) -> QuerySet[AuditEntry]:
    """Return the entries, newest first. PlanError for an invalid day."""
    rows = AuditEntry.objects.select_related("actor")
    if filters.person == SYSTEM:
        rows = rows.filter(actor=None)
    elif filters.person:
        rows = rows.filter(actor__username=filters.person)
    rows = rows.filter(action__startswith=filters.action) if filters.action else rows
    rows = rows.filter(target__icontains=filters.target) if filters.target else rows
    rows = rows.filter(at__gte=first_moment(_day("since", filters.since))) if filters.since else rows
    return rows.filter(at__lte=last_moment(_day("until", filters.until))) if filters.until else rows


def _day(field: str, typed: str) -> date:
    try:
        return date.fromisoformat(typed)
    except ValueError as error:
        raise PlanError(field, f"{typed[:40]!r} is not a date", hint="accepted: a date such as 2026-01-31") from error


def csv_lines(rows: QuerySet[AuditEntry]) -> Iterator[str]:
    """A line each, never whole in memory; formulas of spreadsheets are disarmed by a leading apostrophe."""
    yield _line(HEAD)
    for row in rows.iterator(chunk_size=1000):
        cells = (
            row.at.isoformat(),
            str(row.actor or SYSTEM),
            row.action,
            row.target,
            *map(_json, (row.before, row.after)),
        )
        yield _line(map(disarmed, cells))


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _line(cells: Any) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()

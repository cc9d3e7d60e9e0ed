"""Pages of long lists by the place of a row in their order, not by counting: the last page takes no longer than the
first, and rows that come or go meanwhile move no others. (M. Winand, SQL Performance Explained, 2012, ch. 7.)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from django.core.exceptions import ValidationError
from django.db.models import F, Model, Q, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan

from common.errors import PlanError

M = TypeVar("M", bound=Model)
HINT = "use `next` or `previous` of a response, or omit it to start from the beginning"


@dataclass(frozen=True)
class Page(Generic[M]):
    """Rows in order, with cursors of the previous and next page; "" if there is none."""

    rows: list[M]
    previous: str
    next: str

    @property
    def all(self) -> bool:
        return not (self.previous or self.next)


def page(rows: QuerySet[M], order: Sequence[str], size: int, cursor: str = "") -> Page[M]:
    """The page at a cursor, the first without one. `order`: names of columns, "-" before those that descend, together
    unique. PlanError for a cursor that is not of this list."""
    keys = {f"key_{place}": name for place, name in enumerate(order)}
    keyed = rows.annotate(**{key: F(name.removeprefix("-")) for key, name in keys.items()})
    fields = [keyed.query.annotations[key].output_field for key in keys]
    back, values = _decoded(cursor, order, fields) if cursor else (False, [])
    down = [name.startswith("-") != back for name in order]
    if values:
        keyed = keyed.filter(_beyond(down, values, any(field.null for field in fields)))
    ordering = [f"-{key}" if descends else key for key, descends in zip(keys, down, strict=True)]
    page_rows = list(keyed.order_by(*ordering)[: size + 1])
    more, page_rows = len(page_rows) > size, page_rows[:size]
    if back:
        page_rows.reverse()
    earlier, later = (more, True) if back else (bool(cursor), more)
    return Page(
        page_rows,
        cursor_at(order, page_rows[0], "<") if earlier and page_rows else "",
        cursor_at(order, page_rows[-1]) if later and page_rows else "",
    )


def _beyond(down: Sequence[bool], values: Sequence[Any], nullable: bool) -> Any:
    """Return the condition for rows after these values. If all columns have one direction, it is a row comparison,
    which can use an index."""
    keys = [f"key_{place}" for place in range(len(values))]
    if nullable or len(set(down)) > 1:
        return _column_by_column(down, keys, values)
    compare = TupleLessThan if down[0] else TupleGreaterThan
    return compare(tuple(F(key) for key in keys), tuple(values))


def _column_by_column(down: Sequence[bool], keys: Sequence[str], values: Sequence[Any]) -> Q:
    """PostgreSQL has nulls last, and first where a column descends."""
    beyond, same = Q(pk__in=[]), Q()
    for descends, key, value in zip(down, keys, values, strict=True):
        nulls = Q(**{f"{key}__isnull": True})
        if value is None:
            further, alike = (~nulls if descends else Q(pk__in=[])), nulls
        else:
            further = Q(**{f"{key}__lt": value}) if descends else Q(**{f"{key}__gt": value}) | nulls
            alike = Q(**{key: value})
        beyond |= same & further
        same &= alike
    return beyond


def cursor_at(order: Sequence[str], row: Model, way: str = ">") -> str:
    """A cursor of the page that begins after a row, or with "<" ends before it."""
    values = [vars(row).get(f"key_{n}", getattr(row, name.removeprefix("-"), None)) for n, name in enumerate(order)]
    payload = orjson.dumps([way, list(order), values])
    return base64.urlsafe_b64encode(payload).decode().rstrip("=")


def _decoded(cursor: str, order: Sequence[str], fields: Sequence[Any]) -> tuple[bool, list[Any]]:
    """(whether it goes backwards, the values of the row that it stands at)."""
    try:
        way, named, values = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        key_values = [field.to_python(value) for field, value in zip(fields, values, strict=True)]
        if any(isinstance(value, str) and "\0" in value for value in key_values):
            raise ValueError("PostgreSQL stores no NUL")
        if way not in ("<", ">") or named != list(order):
            raise ValueError(f"it belongs to a list ordered by {', '.join(map(str, named))}")
    except (ValueError, TypeError, ValidationError) as error:
        raise PlanError("cursor", f"{cursor[:40]!r} is not a cursor of this list", hint=HINT) from error
    return way == "<", key_values

"""SQL statements as spans, with placeholders and never with parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from opentelemetry.trace import Span, SpanKind

from apps.tracing import sdk

MOST = 200  # of one request or task
LONGEST = 2000  # characters of a statement
OPERATION = re.compile(r"\s*(\w+)")
TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+"(\w+)"')
LEFT_OUT, COUNT = "proving.sql.left_out", "proving.sql.statements"


class Recorder:
    """A wrapper of Django's `execute`, for one request or task."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        if self.count > MOST:
            return execute(sql, params, many, context)
        with sdk.part(*described(sql)):
            return execute(sql, params, many, context)


def described(sql: Any) -> tuple[str, SpanKind, dict[str, str]]:
    """Return name, kind and attributes of a statement. One that was composed may contain values: its text is left
    out."""
    text = sql if isinstance(sql, str) else ""
    operation, table = OPERATION.match(text), TABLE.search(text)
    name = " ".join(match[1] for match in (operation, table) if match) or "statement"
    attributes = {"db.system.name": "postgresql", "db.query.text": text[:LONGEST]}
    return name, SpanKind.CLIENT, attributes if text else {"db.system.name": "postgresql"}


@contextmanager
def recorded(span: Span) -> Iterator[None]:
    """Record the statements of this thread during the `with` block, and their number in `span`."""
    recorder = Recorder()
    try:
        with connection.execute_wrapper(recorder):
            yield
    finally:
        span.set_attribute(COUNT, recorder.count)
        if recorder.count > MOST:
            span.set_attribute(LEFT_OUT, recorder.count - MOST)

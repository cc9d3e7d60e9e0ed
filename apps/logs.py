"""Log lines as JSON, and the run that they are about."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_run: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def about(run: object) -> Iterator[None]:
    """What is logged inside, by whichever module, carries the id of this run."""
    token = _run.set(str(run))
    try:
        yield
    finally:
        _run.reset(token)


class JsonFormatter(logging.Formatter):
    """One object a line: time (RFC 3339, UTC), level, logger, message; run and error where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if run := _run.get():
            told["run"] = run
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)

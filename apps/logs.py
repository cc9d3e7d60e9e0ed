"""JSON log lines with the id of the run that they are about."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

SECRET = re.compile(r"(/password/[^/\s]+/|/feed/)(?!set-password|forgot)[^/\s\"']+")
_run: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def about(run: object) -> Iterator[None]:
    """Add the id of this run to everything that is logged inside, by any module."""
    token = _run.set(str(run))
    try:
        yield
    finally:
        _run.reset(token)


class WithoutSecrets(logging.Filter):
    """Removes secrets in URLs: the token of a link that sets a password, and the secret of a feed."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        bare = SECRET.sub(r"\1[secret]", text)
        if bare != text:
            record.msg, record.args = bare, ()
        return True


class UnknownName(logging.Filter):
    """Removes the traceback of requests with an unknown host name. Scanners send many, and the message is enough."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "django.security.DisallowedHost":
            record.exc_info = record.exc_text = None
        return True


class JsonFormatter(logging.Formatter):
    """Formats one JSON object per line: time (RFC 3339, UTC), level, logger, message, process, and run and error if
    there are any."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if run := _run.get():
            entry["run"] = run
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def say(message: object, file: object = None) -> None:
    """Write a log line from a signal handler, where the handlers of `logging` must not be called."""
    record = logging.makeLogRecord({"name": "celery", "levelname": "INFO", "msg": str(message).strip()})
    os.write(2, (JsonFormatter().format(record) + "\n").encode())

"""Sends responses without holding a database connection, even if the client reads slowly."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from django.db import connections
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

IN_MEMORY = 1024**2
CHUNK = 64 * 1024
EVENTS = "text/event-stream"


class DetachedBody:
    """Generates a streamed body completely (on disk from 1 MiB), then releases the database connection. A client that
    reads slowly keeps one thread busy, but no connection.

    Must be outside of all middleware that queries PostgreSQL."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if isinstance(response, StreamingHttpResponse) and _is_made_while_sent(response):
            response.streaming_content = _whole(response.streaming_content)  # type: ignore[arg-type]  # not async here
        _release_connections()
        return response


def _is_made_while_sent(response: StreamingHttpResponse) -> bool:
    """Return False for existing files, and for event streams, which are endless and do not query PostgreSQL."""
    return not isinstance(response, FileResponse) and not response.headers["Content-Type"].startswith(EVENTS)


def _release_connections() -> None:
    """Return this thread's connections to their pool, except inside the transaction of a test."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _whole(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Generate all parts now, and return an iterator over the same bytes."""
    spooled: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed when it was sent
    spooled.writelines(parts)
    spooled.seek(0)
    return _chunks(spooled)


def _chunks(spooled: IO[bytes]) -> Iterator[bytes]:
    with spooled:
        while chunk := spooled.read(CHUNK):
            yield chunk

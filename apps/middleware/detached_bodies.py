"""Answers whose bodies need no connection to PostgreSQL, however slowly they are read."""

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
    """Outside of everything that asks PostgreSQL: makes what is streamed whole, on disk from 1 MiB on, and gives the
    connection back. Who downloads and does not read keeps a thread from then on, and nothing that others wait for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if isinstance(response, StreamingHttpResponse) and _is_made_while_sent(response):
            response.streaming_content = _whole(response.streaming_content)  # type: ignore[arg-type]  # not async here
        _give_back()
        return response


def _is_made_while_sent(response: StreamingHttpResponse) -> bool:
    """Neither a file that there is, nor events, which have no end and ask PostgreSQL nothing."""
    return not isinstance(response, FileResponse) and not response.headers["Content-Type"].startswith(EVENTS)


def _give_back() -> None:
    """Connections of this thread to their pool, unless somebody's transaction is around all of this: a test's."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _whole(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, all of them made by now."""
    spooled: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed when it was sent
    spooled.writelines(parts)
    spooled.seek(0)
    return _chunks(spooled)


def _chunks(spooled: IO[bytes]) -> Iterator[bytes]:
    with spooled:
        while chunk := spooled.read(CHUNK):
            yield chunk

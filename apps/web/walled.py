"""Sets the reader of each request to its user: see apps/accounts/models/walls.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.contrib.sessions.backends.base import SessionBase
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_resolver

from apps.accounts.models import Teams, User, hidden_from
from apps.accounts.models.walls import Reader, reading_as


class WalledMiddleware:
    """Everything after the login reads as the user, and so do bodies that are made while they are sent."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        # Imports all views now: in a request, their querysets would be restricted for its user.
        get_resolver().url_patterns  # noqa: B018 - for its effect

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        reader = Reader(lambda: _hidden_from(request))
        with reading_as(reader):
            response = self.get_response(request)
        if isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse):
            body: Iterable[bytes] = response.streaming_content  # type: ignore[assignment]
            response.streaming_content = _read_as(reader, body)
        return response


def _hidden_from(request: HttpRequest) -> Teams:
    user: Any = request.user
    session: SessionBase = request.session
    known = getattr(session, "unjoined_teams", None)
    if isinstance(user, User) and known is not None and known[0] == user.pk:
        user.unjoined_teams = known[1]
    return hidden_from(user)


def _read_as(reader: Reader, body: Iterable[bytes]) -> Iterator[bytes]:
    parts = iter(body)
    while True:
        with reading_as(reader):
            part = next(parts, None)
        if part is None:
            return
        yield part

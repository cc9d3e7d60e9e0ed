"""Limits on requests, checked before any other work, and the answers if none can be served."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from apps.request_values import content_length

# Forms, scripts and JSON. Imports and captures are larger; apps/results/exchange/transfer.py and readers/twin say how
# large.
MOST = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
UPLOADS = ("/imports/", "/api/v1/imports/", "/twins/", "/api/v1/twins/")
UPLOAD_MOST = 80 * 1024**2
BAD, TOO_LARGE, BROKEN, OVERLOADED = 400, 413, 500, 503
AGAIN_S = 2
log = logging.getLogger(__name__)

Answer = Callable[[HttpRequest], HttpResponseBase]


class RequestSize:
    """Refuses requests whose Content-Length is too large. Django reads no body without that header."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        size = content_length(request)
        most = UPLOAD_MOST if request.path.startswith(UPLOADS) else MOST
        return _too_large(request, f"{size} bytes are", most) if size > most else self.get_response(request)


class NoNul:
    """Answers 400 if the URL or a form contains a NUL, which PostgreSQL cannot store."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return refused(request, BAD, "the address contains a NUL (%00)", "remove it")
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        if request.method != "POST" or request.path.startswith(("/api/", *UPLOADS)):
            return None  # the API's parser checks JSON, and imports check their files
        names = [name for name, values in request.POST.lists() if "\0" in "".join([name, *map(str, values)])]
        return refused(request, BAD, f"{names[0][:40]!r} contains a NUL", "remove it") if names else None


class NoStore:
    """Keeps responses out of all caches, including the browser's, unless a view says otherwise."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


class Overloaded:
    """Answers 503 if PostgreSQL grants no connection or lock in time. The failed transaction is rolled back."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return _no_database(request, error) if isinstance(error, OperationalError) else None


def _no_database(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return a 503 that asks the client to try again soon, without using the database."""
    log.warning("%s %s is answered 503: %s", request.method, request.path, error)
    title, hint = "the database does not answer in time", f"nothing was changed; try again in {AGAIN_S} seconds"
    by_program = _is_for_a_program(request)
    answer = _problem(OVERLOADED, title, hint) if by_program else render(request, "503.html", status=OVERLOADED)
    answer["Retry-After"] = str(AGAIN_S)
    return answer


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400."""
    if isinstance(exception, RequestDataTooBig):
        return _too_large(request, "the bytes of the form are", MOST)
    if isinstance(exception, DisallowedHost):
        name = f"{request.META.get('HTTP_HOST', '')!r:.80}"
        hint = f"open {settings.BASE_URL}, or add the name to PROVING_ALLOWED_HOSTS on the server"
        return refused(request, BAD, f"the server does not answer under the name {name}", hint)
    return refused(
        request, BAD, "the request cannot be read", "send it as described by the form or the API documentation"
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: a problem document for programs, otherwise a page that uses no database."""
    error = sys.exc_info()[1]
    if isinstance(error, OperationalError):  # raised in another middleware
        return _no_database(request, error)
    if _is_for_a_program(request):
        return _problem(
            BROKEN, "internal server error", "the server's log has the details; running benchmarks continue"
        )
    return render(request, "500.html", status=BROKEN)


def refused(request: HttpRequest, status: int, title: str, hint: str) -> HttpResponse:
    """Return a refusal: a problem document for programs, otherwise a page."""
    if _is_for_a_program(request):
        return _problem(status, title, hint)
    return render(request, "refused.html", {"title": title, "hint": hint, "status": status}, status=status)


def _is_for_a_program(request: HttpRequest) -> bool:
    """Whether a client of the API or the script of a chart reads the answer."""
    return request.path.startswith("/api/") or request.path.endswith(".json")


def _problem(status: int, title: str, hint: str) -> HttpResponse:
    body = {"title": title, "status": status, "field": "", "hint": hint, "blame": "plan"}
    return JsonResponse(body, status=status, content_type="application/problem+json")


def _too_large(request: HttpRequest, what: str, most: int) -> HttpResponse:
    hint = f"at most {most} are accepted; send less at once"
    return refused(request, TOO_LARGE, f"{what} too many", hint)

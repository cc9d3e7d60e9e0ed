"""ETag and If-None-Match for reads of the API, If-Match for changes (RFC 9110, section 13)."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags

from apps.web.idempotency import problem
from apps.web.requester import PREFIX

WRITES = ("PATCH", "PUT", "DELETE")
# How often, and how long after each other, one asks for its turn.
TRIES, EVERY_S = 40, 0.05


class ETagMiddleware:
    """A representation's tag is made of its bytes: that of a GET is what If-Match at the same address must name."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(PREFIX):
            return self.get_response(request)
        if request.method == "GET":
            return _tagged(request, self.get_response(request))
        if_match = request.headers.get("If-Match")
        if if_match is None or request.method not in WRITES:
            return self.get_response(request)
        with _alone(request.path) as alone:
            if not alone:
                return _taken()
            now = self.get_response(_reading(request))
            if now.status_code == 200 and not _matches(parse_etags(if_match), tag(now)):
                return _changed(now)
            return self.get_response(request)


def tag(response: HttpResponseBase) -> str:
    """Return a strong ETag of the response's bytes; "" for a streamed response."""
    content = response.content if isinstance(response, HttpResponse) else None
    return "" if content is None else f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _tagged(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    made = tag(response) if response.status_code == 200 else ""
    if not made:
        return response
    response.headers["ETag"] = made
    response.headers.setdefault("Cache-Control", "private, no-cache")
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if not ("*" in known or made in [each.removeprefix("W/") for each in known]):
        return response
    unchanged = HttpResponseNotModified()
    for name in ("ETag", "Cache-Control", "Vary"):
        if name in response.headers:
            unchanged.headers[name] = response.headers[name]
    return unchanged


def _matches(etags: list[str], now: str) -> bool:
    return "*" in etags or now in etags


def _reading(request: HttpRequest) -> HttpRequest:
    """The same request as a GET."""
    as_get = copy.copy(request)
    as_get.method = "GET"
    as_get.META = {name: value for name, value in request.META.items() if not name.startswith("HTTP_IF_")}
    as_get.META |= {"REQUEST_METHOD": "GET", "CONTENT_LENGTH": "", "CONTENT_TYPE": ""}
    as_get.__dict__.pop("headers", None)
    return as_get


def _changed(now: HttpResponseBase) -> HttpResponse:
    answer = problem(412, "it was changed since you read it", "read it again, and send the new ETag", field="If-Match")
    answer["ETag"] = tag(now)
    return answer


def _taken() -> HttpResponse:
    answer = problem(409, "other requests are changing it", "read it again, and repeat the change", field="")
    answer["Retry-After"] = "1"
    return answer


@contextmanager
def _alone(path: str) -> Iterator[bool]:
    """Serialise conditional writes to one URL, so that the second is checked after the first. Yields False if that
    takes too long. Waiting requests hold no database connection."""
    number = int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big", signed=True)
    alone = _wait(number)
    try:
        yield alone
    finally:
        if alone:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number])


def _wait(number: int) -> bool:
    for attempt in range(TRIES):
        if _lock(number):
            return True
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        time.sleep(EVERY_S if attempt + 1 < TRIES else 0)
    return False


def _lock(number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number])
        return bool(cursor.fetchone()[0])

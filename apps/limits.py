"""How large a request may be, said before anybody reads it: 413 with what would be accepted."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

# Forms, scripts and JSON. Who imports files sends more, and up to here is told by apps/results/transfer.py how much.
MOST = 4 * 1024**2
UPLOADS = ("/imports/", "/api/v1/imports/")
UPLOAD_MOST = 80 * 1024**2
TOO_LARGE = 413


class RequestSize:
    """Refuses by Content-Length. A body without one is none: Django reads no further than it says."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        told = request.META.get("CONTENT_LENGTH") or "0"
        size = int(told) if told.isdecimal() else 0
        most = UPLOAD_MOST if request.path.startswith(UPLOADS) else MOST
        return _refused(request, size, most) if size > most else self.get_response(request)


def _refused(request: HttpRequest, size: int, most: int) -> HttpResponse:
    title, hint = f"{size} bytes are too many", f"at most {most} are taken here; send less at once"
    if request.path.startswith("/api/"):
        body = {"title": title, "status": TOO_LARGE, "field": "", "hint": hint, "blame": "plan"}
        return JsonResponse(body, status=TOO_LARGE, content_type="application/problem+json")
    return render(request, "413.html", {"title": title, "hint": hint}, status=TOO_LARGE)

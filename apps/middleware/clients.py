"""Checks that the version of `proving` is compatible with this server, and sends the server's version."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from apps.configuration.version import fit, series

API = "/api/"
PROGRAM = "proving/"
HEADER = "Proving-Version"
UPGRADE_REQUIRED = 426


class ClientVersion:
    """Answers 426 to a `proving` of an incompatible version, before any other work. Other clients are not checked. Each
    response of the API has the server's version in its header."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(API):
            return self.get_response(request)
        client = request.headers.get("User-Agent", "").partition(" ")[0]
        version = client.removeprefix(PROGRAM)
        refused = version != client and not fit(version, settings.VERSION)
        answer = _refuse(version) if refused else self.get_response(request)
        answer.headers[HEADER] = settings.VERSION
        return answer


def _refuse(version: str) -> HttpResponseBase:
    body = {
        "title": f"proving {version} is not compatible with this server, version {settings.VERSION}",
        "status": UPGRADE_REQUIRED,
        "field": "User-Agent",
        "hint": f"install proving {series(settings.VERSION)}, the version of the server",
        "blame": "plan",
    }
    return JsonResponse(body, status=UPGRADE_REQUIRED, content_type="application/problem+json")

"""A span for each web request, named as in the histogram of latencies.py. Loaded only while traces are enabled.

Addresses and queries may contain secrets, such as the token of a link that sets a password, so a span has the name of
its view and the pattern of its address. It has neither user nor client, no header and no body.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind

from apps.middleware.admission import PROBES
from apps.monitoring import latencies
from apps.tracing import sdk, statements

BROKEN = 500


class RequestSpan:
    """Records requests until their response begins. The trace of a client is only linked: clients decide neither what
    is recorded nor where it appears."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path in PROBES:
            return self.get_response(request)
        caller = sdk.parse(request.headers.get(sdk.TRACEPARENT))
        links = [Link(caller)] if caller.is_valid else []
        with sdk.begun("request", Context(), SpanKind.SERVER, links) as span:
            if not span.is_recording():
                return self.get_response(request)
            with statements.recorded(span):
                response = self.get_response(request)
            _describe(span, request, response)
            return response


def _describe(span: Span, request: HttpRequest, response: HttpResponseBase) -> None:
    view, method, _ = latencies.labels(request, response)
    span.update_name(f"{method} {view}")
    span.set_attributes(
        {
            "http.request.method": method if method in latencies.METHODS else "_OTHER",
            "http.response.status_code": response.status_code,
            "url.scheme": request.scheme or "",
        }
    )
    if request.resolver_match:
        span.set_attribute("http.route", f"/{request.resolver_match.route}")
    if response.status_code >= BROKEN:
        sdk.fail(span, str(response.status_code))

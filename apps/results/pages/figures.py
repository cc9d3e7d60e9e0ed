"""Responses with the figure of a chart as JSON, for its width on the page."""

from __future__ import annotations

import orjson
from django.http import HttpRequest, HttpResponse

from apps.request_values import whole
from apps.results.charts.themes import WIDTH_PX, Figure


def width_of(request: HttpRequest) -> int:
    """Return ?width= in pixels; WIDTH_PX if it is not a number."""
    width = whole(request.GET.get("width", ""))
    return WIDTH_PX if width is None else width


def as_json(figure: Figure) -> HttpResponse:
    """Return the figure as JSON. Arrays are serialised directly, in a tenth of the time; nan becomes null."""
    return HttpResponse(orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY), content_type="application/json")

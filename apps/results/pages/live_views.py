"""Live updates for pages: a stream of news, or polling for news since the last update."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.campaigns.execution import nudges
from apps.campaigns.models import Run
from apps.request_values import whole
from apps.results.live import news
from apps.results.live.hub import Hub, Seat, encode
from apps.web.pages import needs

AGAIN_S = 30
hub = Hub(settings.LIVE_STREAMS)


@needs(Role.VIEWER)
@cache_control(no_store=True)
def run_live(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the news after event `?after=`; see news.of_run."""
    run = get_object_or_404(news.watched(), pk=pk)
    if run.state != Run.State.ENDED:
        nudges.watch(run.pk)
    return JsonResponse(news.of_run(run, _after(request)))


@needs(Role.VIEWER)
def run_stream(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Stream the same, from the event after Last-Event-ID or `?after=`, until the run has ended."""
    run = get_object_or_404(news.watched(), pk=pk)
    if run.state == Run.State.ENDED:
        return _stream([encode(run.last_seq, news.of_run(run, _after(request)))])
    seat = hub.join(pk, news.RunWatch(run))
    if seat is None:
        return _full()
    run.last_seq = seat.seq  # only up to the start of the next message
    try:
        message = news.of_run(run, _after(request))
        seat.opening = [encode(message["seq"], message)]
    except Exception:  # no response will close it
        seat.close()
        raise
    return _stream(seat)


@needs(Role.VIEWER)
@cache_control(no_store=True)
def campaign_live(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the progress; see news.of_campaign."""
    message = _campaign(pk)
    news.watch_runs(message)
    return JsonResponse(message)


@needs(Role.VIEWER)
def campaign_stream(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Stream the progress of a campaign, at once and at every change, until it has ended."""
    message = _campaign(pk)
    opening = [encode(message["seq"], message)]
    if not message["moving"]:
        return _stream(opening)
    seat = hub.join(pk, news.CampaignWatch(pk, message["seq"]))
    if seat is None:
        return _full()
    seat.opening = opening
    return _stream(seat)


def _campaign(pk: UUID) -> dict[str, Any]:
    message = news.of_campaign(pk)
    if message is None:
        raise Http404("this campaign does not exist")
    return message


def _after(request: HttpRequest) -> int:
    return whole(request.headers.get("Last-Event-ID") or request.GET.get("after", "0")) or 0


def _stream(chunks: Seat | list[bytes]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(chunks, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"  # nginx would buffer the stream
    return response


def _full() -> HttpResponse:
    """Return the response if no seat is free. The page then polls, and requests a stream again later."""
    return HttpResponse(
        "all live streams of this process are in use\n", status=503, headers={"Retry-After": str(AGAIN_S)}
    )


urlpatterns = [
    path("runs/<uuid:pk>/live.json", run_live, name="run_live"),
    path("runs/<uuid:pk>/stream/", run_stream, name="run_stream"),
    path("campaigns/<uuid:pk>/live.json", campaign_live, name="campaign_live"),
    path("campaigns/<uuid:pk>/stream/", campaign_stream, name="campaign_stream"),
]

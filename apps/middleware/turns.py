"""Limits the costly requests that a user has at a time: downloads, and pages and charts that are computed."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.web.requester import user_of
from apps.middleware.limits import refused

# Per user and process. Fewer than the connections of a process (apps/wsgi.py), so that other users get some.
MOST = 8
AGAIN_S = 5
TOO_MANY = 429
# Parts of the URL names that are read: of downloads, each of which keeps a thread busy, and of what is computed from
# many rows, with a connection to PostgreSQL meanwhile.
DOWNLOADS = ("export", "csv", "artefact")
CHARTS = ("explore", "compare", "figure", "latency", "spread", "importance")
RESULTS = ("baselines", "results", "judgements", "summary", "campaign_detail", "run_detail")
COSTLY = (*DOWNLOADS, *CHARTS, *RESULTS)
SEARCH, PREVIEW = "search", "campaign_preview"  # whole names; a preview is posted, but saves nothing


def _is_costly(method: str, name: str) -> bool:
    """Whether a request counts. One that changes something never does: a user can cancel while charts are computed."""
    if method == "POST":
        return name == PREVIEW
    return method in ("GET", "HEAD") and (name == SEARCH or any(part in name for part in COSTLY))


class Turns:
    """Counts each user's costly requests. One ends when its response is sent or garbage-collected.

    Must be outside of the middleware that generates bodies."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._taken, self._lock = Counter[int](), threading.Lock()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if turn := getattr(request, "turn", None):
            response._resource_closers.append(turn)  # type: ignore[attr-defined]  # not in the stubs
            weakref.finalize(response, turn)
        return response

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        match = request.resolver_match
        if match is None or not _is_costly(request.method or "", match.url_name or ""):
            return None
        user = user_of(request)
        if user is None:
            return None
        turn = self._take(user.pk)
        if turn is None:
            title = f"{MOST} of your downloads, charts and result pages are in progress"
            answer = refused(request, TOO_MANY, title, "wait until one of them has ended")
            answer["Retry-After"] = str(AGAIN_S)
            if request.method == "GET" and answer["Content-Type"].startswith("text/html"):
                answer["Refresh"] = str(AGAIN_S)  # the browser requests the page again
            return answer
        request.turn = turn  # type: ignore[attr-defined]
        return None

    def _take(self, user: int) -> Callable[[], None] | None:
        """Start a request. Returns a function that ends it, or None if the user already has MOST."""
        with self._lock:
            if self._taken[user] >= MOST:
                return None
            self._taken[user] += 1
        held = [user]

        def end() -> None:
            with self._lock:
                if held:
                    self._taken[held.pop()] -= 1
                    self._taken = +self._taken  # drop users without requests

        return end

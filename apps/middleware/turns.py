"""Limits the costly requests that a user has at a time: downloads, and pages and charts that are computed."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.middleware.limits import refused
from apps.web.requester import user_of

# Per user and process. Fewer than the connections of a process (apps/wsgi.py), so that other users get some.
MOST = 8
AGAIN_S = 5
TOO_MANY = 429
# Names of addresses that count if they are requested with GET. tests/apps/wiring/test_turns.py lists the others: a new
# address must be in one of the two lists.
# Files and long lists: each keeps a thread busy and its content in memory, until the client has read it.
DOWNLOADS = (
    *("audit_csv", "campaign_csv", "campaign_explore_csv", "campaign_export", "campaign_spread_csv"),
    *("campaign_summary", "compare_csv", "decision_export", "part_artefact", "profile_export", "run_artefact"),
    *("run_csv", "run_export", "run_spread_csv", "schedule_csv", "searches_csv"),
    *("api:artefact-download", "api:campaign-export", "api:decision-export", "api:profile-export"),
    *("api:run-events", "api:run-export", "api:runpart-events", "api:runpart-file", "api:series-detail"),
)
# What is computed from many rows, with a connection to PostgreSQL meanwhile.
CHARTS = (
    *("baseline_figure", "campaign_explore", "campaign_explore_figure", "campaign_figure", "campaign_spread"),
    *("compare", "compare_figure", "compare_levels", "run_figure", "run_latency", "run_spread"),
    *("schedule_figure", "searches_figure", "searches_importance", "api:compare", "api:search-importance"),
)
RESULTS = (
    *("campaign_detail", "decision_detail", "decision_new", "drift", "host_baselines", "import_detail", "run_detail"),
    *("schedule_detail", "search", "searches_detail", "timeline", "why"),
    *("api:baselines", "api:decision-drift", "api:import-detail", "api:judgements", "api:observed", "api:proof"),
    *("api:results", "api:search", "api:search-detail", "api:summary", "api:timeline", "api:why"),
)
# What is planned from a whole design, or from a whole profile.
PLANS = (
    *("dry_run", "api:campaign-checks", "api:campaign-preview", "api:decision-replay", "api:profile-dry-run"),
    "api:recipe-preview",
)
COSTLY = frozenset((*DOWNLOADS, *CHARTS, *RESULTS, *PLANS))
PREVIEW = "campaign_preview"  # is posted, but saves nothing


def _is_costly(method: str, name: str) -> bool:
    """Whether a request counts. One that changes something never does: a user can cancel while charts are computed."""
    if method == "POST":
        return name == PREVIEW
    return method in ("GET", "HEAD") and name in COSTLY


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
        if match is None or not _is_costly(request.method or "", match.view_name):
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

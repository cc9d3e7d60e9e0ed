"""How many downloads one user has at a time: each keeps a thread until it is read, and some take cpu time to make."""

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

MOST = 8  # of one user in one process
AGAIN_S = 5
TOO_MANY = 429
# In the names of addresses.
DOWNLOADS = ("export", "csv", "artefact")


class Turns:
    """Outside of what makes bodies. A turn ends when the answer is sent, or nobody holds it any more."""

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
        if match is None or not any(word in (match.url_name or "") for word in DOWNLOADS):
            return None
        user = user_of(request)
        if user is None:
            return None
        turn = self._take(user.pk)
        if turn is None:
            answer = refused(
                request, TOO_MANY, f"{MOST} of your downloads are in progress", "wait until one of them has ended"
            )
            answer["Retry-After"] = str(AGAIN_S)
            return answer
        request.turn = turn  # type: ignore[attr-defined]
        return None

    def _take(self, user: int) -> Callable[[], None] | None:
        """What ends the turn; None where the user has as many as there may be."""
        with self._lock:
            if self._taken[user] >= MOST:
                return None
            self._taken[user] += 1
        held = [user]

        def end() -> None:
            with self._lock:
                if held:
                    self._taken[held.pop()] -= 1
                    self._taken = +self._taken  # without who has none

        return end

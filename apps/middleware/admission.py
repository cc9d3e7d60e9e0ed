"""Computes a few requests at a time. Threads that compute together delay each other and need more CPU time in all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

# Programs ask for these every few seconds, with a timeout, and restart a server that does not answer.
PROBES = ("/healthz", "/readyz", "/metrics")
# Per process: one computes while PostgreSQL answers the other.
AT_A_TIME = 2
# After this time a request makes room for one more: it waits for something else, or the others would wait for it.
LONG_S = 0.25


class Admission:
    """Starts requests in the order of their arrival, as soon as fewer than AT_A_TIME others have begun within the last
    LONG_S. PROBES do not wait. The content of a stream is sent later, so a stream ends here at once."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._lock = threading.Lock()
        self._line = deque[threading.Event]()
        self._begun = dict[threading.Event, float]()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path in PROBES:
            return self.get_response(request)
        called = self._enter()
        try:
            return self.get_response(request)
        finally:
            with self._lock:
                del self._begun[called]
                self._call_first()

    def _enter(self) -> threading.Event:
        """Wait until this request may start. Only the first in line waits for a time; the others are called."""
        called = threading.Event()
        with self._lock:
            self._line.append(called)
        while True:
            with self._lock:
                wait_s = self._room_in_s() if self._line[0] is called else None
                if wait_s is not None and wait_s <= 0:
                    self._line.popleft()
                    self._begun[called] = time.monotonic()
                    self._call_first()
                    return called
            called.wait(wait_s)
            called.clear()

    def _room_in_s(self) -> float:
        """Seconds until one more may start; 0 or less if it may now."""
        if len(self._begun) < AT_A_TIME:
            return 0.0
        return sorted(self._begun.values())[-AT_A_TIME] + LONG_S - time.monotonic()

    def _call_first(self) -> None:
        if self._line:
            self._line[0].set()

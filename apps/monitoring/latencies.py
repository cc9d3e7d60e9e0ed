"""A histogram of request durations by view, method and class of status, for all web processes together.

Each request is counted in its own process, without waiting. Every few seconds, a thread of each process adds the counts
to Redis in one transaction. If Redis does not answer, the counts stay in the process. If Redis is emptied, the
histogram restarts from 0, which Prometheus expects of counters. A killed process loses the counts not sent yet.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from apps.monitoring.families import Counted, Histogram

NAME = "proving_http_request_seconds"
HELP = "Time until a response begins, by view, method and class of status."
BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# A hash in Redis: "view method status bucket" -> requests, with the bucket "us" for the sum of microseconds.
REDIS_KEY = "proving:http_requests"
SUM = "us"
EVERY_S = 5.0
REDIS_S = 2.0
log = logging.getLogger(__name__)

Labels = tuple[str, str, str]  # view, method, status


class Tally:
    """Counts of requests by bucket, and the sum of their microseconds, by labels."""

    def __init__(self) -> None:
        self._lock, self._rows = threading.Lock(), dict[Labels, list[int]]()

    def add(self, labels: Labels, seconds: float) -> None:
        with self._lock:
            row = self._rows.get(labels)
            if row is None:
                row = self._rows[labels] = [0] * (len(BOUNDS_S) + 2)
            row[bisect_left(BOUNDS_S, seconds)] += 1
            row[-1] += round(seconds * 1e6)

    def take(self) -> dict[Labels, list[int]]:
        with self._lock:
            taken, self._rows = self._rows, {}
            return taken

    def restore(self, taken: dict[Labels, list[int]]) -> None:
        """Add counts that could not be sent, for the next attempt."""
        with self._lock:
            for labels, row in taken.items():
                now = self._rows.get(labels, [0] * len(row))
                self._rows[labels] = [sum(pair) for pair in zip(now, row, strict=True)]


class Sender:
    """The thread that sends counts, started by the first request of a process."""

    def __init__(self, tally: Tally) -> None:
        self._tally, self._lock, self._pid, self._failing = tally, threading.Lock(), 0, False

    def wake(self) -> None:
        if self._pid != os.getpid():
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._work, name="latencies", daemon=True).start()
                atexit.register(self.send)

    def _work(self) -> None:
        while True:
            time.sleep(EVERY_S)
            self.send()

    def send(self) -> None:
        """Send all counts now. If Redis does not answer, keep them."""
        taken = self._tally.take()
        if not taken:
            return
        try:
            _send(taken)
        except (RedisError, OSError) as error:
            self._tally.restore(taken)
            if not self._failing:
                log.warning("durations of requests are buffered until the cache answers: %s", error)
            self._failing = True
        else:
            self._failing = False


tally = Tally()
sender = Sender(tally)


class LatencyMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = self.get_response(request)
        tally.add(labels(request, response), time.perf_counter() - began)
        sender.wake()
        return response


def labels(request: HttpRequest, response: HttpResponseBase) -> Labels:
    """Return view, method and class of status. Unknown URLs and methods share one label each."""
    match, method = request.resolver_match, request.method or ""
    view = match.view_name if match and match.view_name else "none"
    return view, method if method in METHODS else "other", f"{response.status_code // 100}xx"


def _send(taken: dict[Labels, list[int]]) -> None:
    with _redis().pipeline(transaction=True) as pipe:
        pipe.set(_began_key(), time.time_ns(), nx=True)
        for labels, row in taken.items():
            for bucket, count in zip((*range(len(row) - 1), SUM), row, strict=True):
                if count:
                    pipe.hincrby(REDIS_KEY, " ".join((*labels, str(bucket))), count)
        pipe.execute()


@cache
def _redis() -> Redis:
    return connected(str(settings.CACHES["default"]["LOCATION"]))


def connected(url: str) -> Redis:
    """Connect to the cache's server, with short time limits and no retries."""
    limits = {"socket_timeout": REDIS_S, "socket_connect_timeout": REDIS_S}
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0), **limits)


def families() -> list[Histogram]:
    """Return the histogram; nothing before the first request, or if Redis does not answer."""
    sender.send()
    try:
        with _redis().pipeline(transaction=True) as pipe:
            pipe.hgetall(REDIS_KEY)
            pipe.get(_began_key())
            counts, began = pipe.execute()  # in bytes
    except (RedisError, OSError) as error:
        log.warning("durations of requests are not reported: %s", error)
        return []
    rows: dict[Labels, list[int]] = {}
    for field, count in counts.items():
        view, method, status, bucket = field.decode().split(" ")
        row = rows.setdefault((view, method, status), [0] * (len(BOUNDS_S) + 2))
        row[-1 if bucket == SUM else int(bucket)] = int(count)
    values = {_named(labels): Counted(row[:-1], row[-1] / 1e6) for labels, row in sorted(rows.items())}
    return [Histogram(NAME, HELP, BOUNDS_S, values, int(began or 0))] if values else []


def _began_key() -> str:
    """The key of the time since which the requests are counted, in nanoseconds since 1970."""
    return f"{REDIS_KEY}:began_ns"


def _named(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(zip(("view", "method", "status"), labels, strict=True))

"""Which sessions waited for a lock, for whom and how long: sampled from pg_stat_activity."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Self

import environ
import psycopg

POLL_S = 0.05
WAITING = """
SELECT waits.pid, waits.application_name, waits.query, holds.application_name, holds.query
FROM pg_stat_activity waits CROSS JOIN LATERAL unnest(pg_blocking_pids(waits.pid)) AS blocker
JOIN pg_stat_activity holds ON holds.pid = blocker
WHERE waits.wait_event_type = 'Lock'
"""


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """A connection of its own. `url`: as in PROVING_DATABASE_URL."""
    where = environ.Env.db_url_config(url)
    return psycopg.connect(
        host=where["HOST"], port=where["PORT"], user=where["USER"], password=where["PASSWORD"],
        dbname=where["NAME"], autocommit=True,
    )  # fmt: skip


@dataclass
class Wait:
    """The same statement that waits for the same other one: longest time, in seconds."""

    waits: str
    holds: str
    seconds: float


class Watch:
    """A context manager that samples them every 50 ms."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.longest: dict[tuple[str, str], Wait] = {}
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()

    def _sample(self) -> None:
        since: dict[tuple[object, str, str], float] = {}
        with connect(self.url) as connection:
            while not self.stopped.wait(POLL_S):
                now, seen = time.monotonic(), set()
                for pid, waiter, query, holder, held in connection.execute(WAITING).fetchall():
                    pair = (f"{waiter}: {_short(query)}", f"{holder}: {_short(held)}")
                    seen.add((pid, *pair))
                    seconds = now - since.setdefault((pid, *pair), now)
                    if pair not in self.longest or self.longest[pair].seconds < seconds:
                        self.longest[pair] = Wait(*pair, seconds)
                since = {each: when for each, when in since.items() if each in seen}

    @property
    def waits(self) -> list[Wait]:
        """The longest first."""
        return sorted(self.longest.values(), key=lambda wait: -wait.seconds)


def _short(query: object) -> str:
    return " ".join(str(query).split())[:90]

"""One reader for many viewers: a thread reads news every half second, and wakes all streams that send them.

A viewer costs a sleeping thread of the web server, and no connection to PostgreSQL. Each process has its own hub."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from django.db import DatabaseError, close_old_connections, connections

log = logging.getLogger(__name__)

POLL_S = 0.5
BEAT_S = 5.0
# A stream ends after this time. The page opens the next one, for which permissions are checked again.
LIFE_S = 300.0
# Messages that a viewer may lag behind; a slower one starts again.
MOST_MESSAGES = 64
RETRY_MS = 2000
BEAT = b"event: beat\ndata: {}\n\n"
AGAIN = b"event: again\ndata: {}\n\n"  # not a failure: the page should open the next stream


@dataclass(frozen=True)
class Word:
    """A message to all viewers of one run or campaign; the `last` one ends the stream."""

    seq: int
    news: dict[str, Any] | None
    last: bool = False


class Watch(Protocol):
    """An object with viewers. `read_news` returns None without news; `seq`: the last event that was read."""

    seq: int

    def read_news(self) -> Word | None: ...


def encode(seq: int, news: Any) -> bytes:
    """Return an event of text/event-stream. The browser sends its id back as Last-Event-ID."""
    return b"id: %d\nevent: news\ndata: %s\n\n" % (seq, orjson.dumps(news))


class Topic:
    """The newest messages of one watch, and the viewers that wait for the next."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.seq = watch, watch.seq
        self.viewers = self.sent = 0
        self.over = False
        self._messages: deque[bytes] = deque(maxlen=MOST_MESSAGES)
        self._news = threading.Condition()

    def publish_news(self) -> None:
        """Read the watch, and send its news to all viewers, encoded once."""
        word = self.watch.read_news()
        if word is None:
            return
        with self._news:
            self.seq, self.over = word.seq, word.last
            if word.news is not None:
                self._messages.append(encode(word.seq, word.news))
                self.sent += 1
            self._news.notify_all()

    def place(self) -> tuple[int, int]:
        """Return (messages sent so far, the seq that they reach): where a new viewer starts."""
        with self._news:
            return self.sent, self.seq

    def end(self) -> None:
        """End the streams of this topic."""
        with self._news:
            self.over = True
            self._news.notify_all()

    def after(self, sent: int, wait_s: float) -> tuple[list[bytes], bool]:
        """Return the messages after the first `sent`, as soon as there is one, and whether the stream ends."""
        with self._news:
            self._news.wait_for(lambda: self.sent > sent or self.over, wait_s)
            missed = self.sent - sent
            behind = missed > len(self._messages)
            return list(self._messages)[len(self._messages) - missed :] if not behind else [], self.over or behind


class Seat:
    """One viewer's stream of bytes. The server closes it in any case, even if it was never read."""

    def __init__(self, topic: Topic, leave: Callable[[], None]) -> None:
        self._topic, self._leave = topic, leave
        self._sent, self.seq = topic.place()
        self.opening: Iterable[bytes] = ()

    def __iter__(self) -> Iterator[bytes]:
        ends = time.monotonic() + LIFE_S
        yield b"retry: %d\n\n" % RETRY_MS
        yield from self.opening
        over = False
        while not over and time.monotonic() < ends:
            messages, over = self._topic.after(self._sent, BEAT_S)
            self._sent += len(messages)
            if messages or not over:
                yield b"".join(messages) or BEAT
        yield AGAIN

    def close(self) -> None:
        leave, self._leave = self._leave, _gone
        leave()


def _gone() -> None:
    """Leave the seat once."""


def _publish(topic: Topic) -> None:
    """Send the news of a topic. If its events cannot be read, only this topic ends; DatabaseError ends all."""
    try:
        topic.publish_news()
    except DatabaseError:
        raise
    except Exception:
        log.exception("a stream ends: its events cannot be sent")
        topic.end()


class Hub:
    """All topics of this process. Its thread lives as long as there are viewers."""

    def __init__(self, seats: int) -> None:
        self.seats, self.viewers = seats, 0
        self._topics: dict[Any, Topic] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def join(self, key: Any, watch: Watch) -> Seat | None:
        """A seat at the topic of this key, created with `watch` if needed; None if no seat is free or the hub stops."""
        with self._lock:
            if self._stopping.is_set() or self.viewers >= self.seats:
                return None
            topic = self._topics.setdefault(key, Topic(watch))
            self.viewers, topic.viewers = self.viewers + 1, topic.viewers + 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hub", daemon=True)
                self._thread.start()
        return Seat(topic, lambda: self._leave(key, topic))

    def _leave(self, key: Any, topic: Topic) -> None:
        with self._lock:
            self.viewers, topic.viewers = self.viewers - 1, topic.viewers - 1
            if not topic.viewers and self._topics.get(key) is topic:
                del self._topics[key]

    def stop(self) -> None:
        """End all streams within POLL_S, and take no new ones; safe in a signal handler."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and wait until the thread has closed its connection."""
        self.stop()
        thread = self._thread
        if thread is not None:
            thread.join(BEAT_S)

    def _work(self) -> None:
        idle = False
        try:
            while not idle and not self._stopping.wait(POLL_S):
                for topic in self._watched():
                    _publish(topic)
                close_old_connections()
                idle = self._idle()
        except DatabaseError as error:
            log.warning("streams close and pages reconnect: %s", error)
        finally:
            if not idle:
                self._end()
            connections.close_all()

    def _watched(self) -> list[Topic]:
        with self._lock:
            return list(self._topics.values())

    def _idle(self) -> bool:
        """Whether there are no viewers left: the next one starts the thread again. Removes topics that are over."""
        with self._lock:
            self._topics = {key: topic for key, topic in self._topics.items() if not topic.over}
            if not self._topics:
                self._thread = None
            return not self._topics

    def _end(self) -> None:
        with self._lock:
            self._thread = None
            for topic in self._topics.values():
                topic.end()
            self._topics = {}

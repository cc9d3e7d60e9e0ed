"""One side of a connection: requests come in on stdin and answers go out on stdout, one at a time."""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from typing import Any, Callable, Optional

from . import protocol

Record = dict[str, Any]


class Wire:
    """Requests on stdin, answers on stdout."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._reader, self._sink, self._requests = protocol.FrameReader(), sys.stdout.buffer, deque[Record]()

    def serve(self, answer: Callable[[Record], Record]) -> None:
        """Answer requests until the other side closes."""
        while data := os.read(sys.stdin.fileno(), 1 << 16):
            self._requests.extend(self._reader.feed(data))
            while self._requests:
                self._sink.write(protocol.encode(answer(self._requests.popleft())))
                self._sink.flush()

    def pause(self, seconds: float, ended: Optional[int]) -> bool:
        """Wait, and return whether there is another request, the server has gone, or `ended` can be read. Without
        `ended`, the pause is short, because nothing else signals news."""
        watched, limit_s = [sys.stdin.fileno()], min(seconds, self._poll_s)
        if ended is not None:
            watched, limit_s = [*watched, ended], seconds
        return bool(self._requests or select.select(watched, [], [], limit_s)[0])

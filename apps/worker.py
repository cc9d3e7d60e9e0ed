"""gunicorn's threaded worker, for servers without a proxy that shields them from slow clients.

A connection waits in the poller until its whole request has arrived; only then does a thread process it. Threads read
large bodies themselves and drop clients that send too slowly. They also drop clients that read nothing for 30 s.
"""

from __future__ import annotations

import errno
import re
import select
import socket
import time
from typing import Any

from gunicorn import glogging
from gunicorn.workers import gthread

from apps.logs import WithoutSecrets

READ_S = 20.0  # for a whole request, plus 1 s for each SLOWEST bytes
SLOWEST = 32 * 1024
SEND_S = 30.0
# A request up to this size is received outside of a thread.
PEEKED = 64 * 1024
END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)


class PatientSocket(socket.socket):
    """A client's connection, with the start of its present request and the number of bytes received."""

    begun: float | None = None
    received = 0

    @property
    def left_s(self) -> float:
        """Return the seconds that the client has left to send the rest of the request."""
        return (self.begun or 0) + READ_S + self.received / SLOWEST - time.monotonic()

    def has_request(self) -> bool:
        """Return whether a thread can read the request without waiting, or must because it is larger than PEEKED or the
        client has closed its side. Otherwise make the poller wake up when the missing bytes arrive."""
        try:
            here = super().recv(PEEKED, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        missing = 0 if self._has_ended() else _missing(here)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(here) + missing if missing else 1)
        return not missing

    def _has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self, select.POLLRDHUP)
        return bool(poll.poll(0))

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        self.settimeout(max(0.001, self.left_s))
        try:
            data = super().recv(bufsize, flags)
        except TimeoutError as error:
            raise ConnectionResetError(errno.ECONNRESET, "the request timed out") from error
        self.received += len(data)
        return data

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data)
        for at in range(0, len(view), PEEKED):
            self.settimeout(SEND_S)
            try:
                super().sendall(view[at : at + PEEKED], flags)
            except TimeoutError as error:
                raise BrokenPipeError(errno.EPIPE, "the client does not read the response") from error

    def sendfile(self, *arguments: Any, **options: Any) -> int:
        self.settimeout(SEND_S)
        return super().sendfile(*arguments, **options)


def _missing(here: bytes) -> int:
    """Return the least number of bytes that must still arrive before a thread can read the request."""
    if len(here) >= PEEKED:
        return 0
    head, end, body = here.partition(END)
    if not end:
        return 1
    length = LENGTH.search(head + END)
    body_bytes = int(length[1]) if length else 0
    return max(0, body_bytes - len(body)) if len(head) + len(END) + body_bytes < PEEKED else 0


class Logger(glogging.Logger):  # type: ignore[misc]  # it has no types
    """Removes secrets in URLs from gunicorn's log. Use with gunicorn --logger-class=apps.worker.Logger."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in (*self.access_log.handlers, *self.error_log.handlers):
            handler.addFilter(WithoutSecrets())


class PatientWorker(gthread.ThreadWorker):  # type: ignore[misc]  # it has no types
    """Use with gunicorn --worker-class=apps.worker.PatientWorker."""

    def handle(self, conn: Any) -> Any:
        if not isinstance(conn.sock, PatientSocket):
            conn.sock = PatientSocket(fileno=conn.sock.detach())
        if conn.sock.begun is None:
            conn.sock.begun, conn.sock.received = time.monotonic(), 0
        read_ahead = conn.initialized and conn.parser.unreader.buf.getvalue()
        if not (read_ahead or conn.sock.has_request()):
            return gthread._DEFER if conn.sock.left_s > 0 else False
        try:
            return super().handle(conn)
        finally:
            conn.sock.begun = None

"""Sends the sealed audit log to a syslog receiver: RFC 5424 with octet counting (RFC 6587), over TLS (RFC 5425) or TCP.

Syslog has no acknowledgements. Each batch therefore has its own connection: the server ends its direction after the
batch, and the batch counts as received when the receiver ends the other direction, because it has read everything then.
A receiver that stops earlier resets the connection, and the batch is sent again. Entries that arrive twice have the
same number.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.audit import chain
from apps.accounts.models import AuditStream

LIMIT_S = 10.0  # for the connection, for each write, and for the receiver to end its direction
BATCH = 500
BATCH_BYTES = 1 << 20  # a larger one might never arrive within LIMIT_S
MOST_BATCHES = 20  # of one call, so that a long backlog leaves time for other periodic work
PRIORITY = 13 * 8 + 6  # facility "log audit", severity "informational"


def send() -> int:
    """Send the entries that the receiver does not have yet, and return their number. A failure is recorded, and the
    next call tries again. Does nothing without a receiver, or while another process sends."""
    total = 0
    if not settings.AUDIT_SYSLOG:
        return total
    AuditStream.objects.get_or_create(pk=1)
    for _ in range(MOST_BATCHES):
        count = _send_batch()
        total += count
        if count == 0:
            break
    return total


@transaction.atomic
def _send_batch() -> int:
    """The row is locked while it sends, because two processes would send everything twice."""
    stream = AuditStream.objects.select_for_update(skip_locked=True).filter(pk=1).first()
    if stream is None:
        return 0
    numbers, content = _batch(stream.sent)
    if not numbers:
        return 0
    try:
        deliver(settings.AUDIT_SYSLOG, content)
    except OSError as error:
        stream.failed_at, stream.error = timezone.now(), str(error)
        stream.save()
        return 0
    stream.sent, stream.sent_at, stream.failed_at, stream.error = numbers[-1], timezone.now(), None, ""
    stream.save()
    return len(numbers)


def _batch(sent: int) -> tuple[list[int], bytes]:
    """The seals after number `sent` and their messages: at most BATCH_BYTES, unless a single message is larger."""
    numbers: list[int] = []
    content = b""
    for line in islice(chain.lines(sent), BATCH):
        message = framed(line)
        if content and len(content) + len(message) > BATCH_BYTES:
            break
        numbers.append(line["number"])
        content += message
    return numbers, content


def framed(line: Mapping[str, Any]) -> bytes:
    """One message after its length. It is ASCII, so no character of an entry can end a line or control a terminal."""
    host = urlsplit(settings.BASE_URL).hostname or "-"
    text = json.dumps(line, sort_keys=True)
    message = f"<{PRIORITY}>1 {line['at']} {host} proving-ground - audit - {text}".encode()
    return b"%d %s" % (len(message), message)


def deliver(receiver: str, content: bytes) -> None:
    """Return once the receiver, tls://HOST:PORT or tcp://HOST:PORT, has read all of `content`; OSError otherwise."""
    with _connected(receiver) as connection:
        connection.sendall(content)
        try:
            _wait_until_read(connection)
        except TimeoutError as error:
            message = f"the receiver did not close the connection within {LIMIT_S:.0f} s after the last entry"
            raise TimeoutError(message) from error


def _wait_until_read(connection: socket.socket) -> None:
    """End our direction, and return when the receiver has ended the other one."""
    if isinstance(connection, ssl.SSLSocket):
        # Some receivers end the connection without a close_notify. The loop below waits for that.
        with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError):
            connection = connection.unwrap()
    with suppress(OSError):  # the receiver has ended the connection first
        connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + LIMIT_S
    while connection.recv(1 << 12):
        if time.monotonic() > deadline:
            raise TimeoutError


@contextmanager
def _connected(receiver: str) -> Iterator[socket.socket]:
    parts = urlsplit(receiver)
    with socket.create_connection((parts.hostname, parts.port), timeout=LIMIT_S) as plain:
        if parts.scheme == "tcp":
            yield plain
            return
        context = ssl.create_default_context(cafile=settings.CA_BUNDLE or None)
        with context.wrap_socket(plain, server_hostname=parts.hostname) as encrypted:
            yield encrypted


def status() -> Iterator[str]:
    """Sentences about the receiver for the page Audit log; none without a receiver."""
    if not settings.AUDIT_SYSLOG:
        return
    stream = _stream()
    yield f"The syslog receiver {settings.AUDIT_SYSLOG} has the entries up to seal {stream.sent}. Waiting: {waiting()}."
    if stream.error:
        yield f"The last attempt failed: {stream.error}. It is repeated every 30 s."


def waiting() -> int:
    """Sealed entries that the receiver has not read; 0 without a receiver."""
    return chain.head().number - _stream().sent if settings.AUDIT_SYSLOG else 0


def _stream() -> AuditStream:
    return AuditStream.objects.filter(pk=1).first() or AuditStream()

"""Sends the sealed audit log to a syslog receiver: RFC 5424 with octet counting (RFC 6587), over TLS (RFC 5425) or TCP.

Syslog does not acknowledge. So each batch has a connection of its own: we end our direction after it, and the batch
counts as received once the receiver ends its own. It has then read everything; a receiver that dies before resets the
connection. The batch is sent again in that case, and entries that arrive twice have the same number.
"""

from __future__ import annotations

import json
import socket
import ssl
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
MOST_BATCHES = 20  # of one call, so that a long backlog leaves time for other periodic work
PRIORITY = 13 * 8 + 6  # facility "log audit", severity "informational"


def send() -> int:
    """Send the entries that the receiver does not have yet; how many. A failure is recorded, and the next call tries
    again. Does nothing without a receiver, or while another process sends."""
    total = 0
    if not settings.AUDIT_SYSLOG:
        return total
    AuditStream.objects.get_or_create(pk=1)
    for _ in range(MOST_BATCHES):
        count = _send_batch()
        total += count
        if count < BATCH:
            break
    return total


@transaction.atomic
def _send_batch() -> int:
    """The row stays locked meanwhile: two senders would send everything twice."""
    stream = AuditStream.objects.select_for_update(skip_locked=True).filter(pk=1).first()
    if stream is None:
        return 0
    batch = list(islice(chain.lines(stream.sent), BATCH))
    if not batch:
        return 0
    try:
        deliver(settings.AUDIT_SYSLOG, b"".join(map(framed, batch)))
    except OSError as error:
        stream.failed_at, stream.error = timezone.now(), str(error)
        stream.save()
        return 0
    stream.sent, stream.sent_at, stream.failed_at, stream.error = batch[-1]["number"], timezone.now(), None, ""
    stream.save()
    return len(batch)


def framed(line: Mapping[str, Any]) -> bytes:
    """One message with its length before it."""
    host = urlsplit(settings.BASE_URL).hostname or "-"
    text = json.dumps(line, ensure_ascii=False, sort_keys=True)
    message = f"<{PRIORITY}>1 {line['at']} {host} proving-ground - audit - {text}".encode()
    return b"%d %s" % (len(message), message)


def deliver(receiver: str, content: bytes) -> None:
    """Return once the receiver, tls://HOST:PORT or tcp://HOST:PORT, has read all of `content`; OSError otherwise."""
    with _connected(receiver) as connection:
        connection.sendall(content)
        if isinstance(connection, ssl.SSLSocket):
            # Without a close_notify of its own, the receiver's end of the connection follows below.
            with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError):
                connection = connection.unwrap()
        with suppress(OSError):  # the receiver has ended it first
            connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 12):
            pass


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


def backlog() -> Iterator[str]:
    """What the page says about the receiver, in sentences; nothing without one."""
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

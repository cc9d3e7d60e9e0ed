"""The audit log reaches a syslog receiver over TCP and TLS, without loss while the receiver or the server is down."""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.accounts.audit import chain, syslog
from apps.accounts.models import AuditStream, User
from apps.accounts.services import audit
from apps.configuration.stores import syslog_receiver
from tests.rows.factories import browser
from tests.servers.certificates import certificate, server_context

MESSAGE = re.compile(rb"<110>1 \S+ \S+ proving-ground - audit - (.*)", re.DOTALL)
Add = Callable[[int], None]


class Syslog:
    """Reads everything. It resets the next `resets` connections after their first bytes, and while it `hangs`, it sends
    bytes and closes no connection."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.content, self.resets, self.connections, self.hangs, self._tls = b"", 0, 0, False, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            try:
                self._read(self._tls.wrap_socket(connection, server_side=True) if self._tls else connection)
            except OSError:
                connection.close()

    def _read(self, connection: socket.socket) -> None:
        self.connections += 1
        if self.resets:
            self.resets -= 1
            connection.recv(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            return
        content = b""
        while data := connection.recv(1 << 16):
            content += data
        self.content += content
        while self.hangs:
            connection.sendall(b"x")
            time.sleep(0.05)
        connection.close()

    def close(self) -> None:
        self._listener.close()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the seals that arrived, in order."""
        numbers, rest = [], self.content
        while rest:
            length, _, rest = rest.partition(b" ")
            message = MESSAGE.fullmatch(rest[: int(length)])
            assert message, rest[:200]
            numbers.append(json.loads(message[1])["number"])
            rest = rest[int(length) :]
        return numbers


@pytest.fixture
def receiver(settings: Any) -> Iterator[Syslog]:
    running = Syslog()
    settings.AUDIT_SYSLOG = f"tcp://127.0.0.1:{running.port}"
    yield running
    running.close()


@pytest.fixture
def add(admin: User) -> Add:
    def add(count: int) -> None:
        for number in range(count):
            audit(admin, "host.add", f"db{number}", after={"text": "ä\n" * 50})
        chain.seal()

    return add


def test_each_entry_arrives_once_and_in_order(receiver: Syslog, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "BATCH", 3)
    add(7)
    assert syslog.send() == 7
    add(2)
    assert syslog.send() == 2
    assert syslog.send() == 0

    assert receiver.numbers == list(range(1, 10))


def test_entries_wait_while_the_receiver_is_down(settings: Any, admin: User, add: Add) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    settings.AUDIT_SYSLOG = f"tcp://127.0.0.1:{port}"
    add(4)
    for _ in range(3):
        assert syslog.send() == 0
    page = browser(admin).get("/audit/").content.decode()

    assert "has the entries up to seal 0. Waiting: 4." in page
    assert "Connection refused" in page
    assert syslog.waiting() == 4
    assert AuditStream.objects.get().sent == 0


def test_a_batch_that_the_receiver_did_not_read_to_its_end_is_sent_again(receiver: Syslog, add: Add) -> None:
    receiver.resets = 2
    add(4)

    assert [syslog.send() for _ in range(4)] == [0, 0, 4, 0]

    assert receiver.numbers == [1, 2, 3, 4]
    assert AuditStream.objects.get().error == ""


def test_a_receiver_that_never_closes_the_connection_delays_no_other_work(
    receiver: Syslog, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syslog, "LIMIT_S", 0.5)
    receiver.hangs = True
    add(1)

    assert syslog.send() == 0
    assert "the receiver did not close the connection" in AuditStream.objects.get().error

    receiver.hangs = False


def test_large_entries_are_sent_in_batches_of_limited_size(
    receiver: Syslog, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syslog, "BATCH_BYTES", 1500)
    add(5)

    assert syslog.send() == 5

    assert receiver.numbers == [1, 2, 3, 4, 5]
    assert receiver.connections == 3


def test_an_entry_that_is_larger_than_a_batch_is_sent_alone(
    receiver: Syslog, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syslog, "BATCH_BYTES", 10)
    add(2)

    assert syslog.send() == 2
    assert receiver.connections == 2


def test_no_character_of_an_entry_ends_a_line_or_controls_a_terminal(admin: User) -> None:
    audit(admin, "host.add", "a\nb\r\u0085\u2028\x1b[2J\x9b2J\x7f\u202e")
    chain.seal()

    message = syslog.framed(next(chain.lines()))

    assert message.isascii() and message.decode().isprintable()


def test_a_receiver_with_tls_needs_a_valid_certificate(settings: Any, add: Add, tmp_path: Path) -> None:
    file = certificate(tmp_path, "localhost")
    running = Syslog(server_context(file))
    settings.AUDIT_SYSLOG = f"tls://localhost:{running.port}"
    add(3)

    settings.CA_BUNDLE = ""
    assert syslog.send() == 0
    assert "certificate verify failed" in AuditStream.objects.get().error
    settings.CA_BUNDLE = str(file)
    assert syslog.send() == 3

    running.close()
    assert running.numbers == [1, 2, 3]


def test_without_a_receiver_nothing_is_sent(settings: Any, add: Add) -> None:
    settings.AUDIT_SYSLOG = ""
    add(1)

    assert syslog.send() == 0
    assert (list(syslog.status()), syslog.waiting()) == ([], 0)


@pytest.mark.parametrize(
    ("url", "receiver"),
    [
        ("tls://logs.example.org", "tls://logs.example.org:6514"),
        ("tcp://192.0.2.7:1514/", "tcp://192.0.2.7:1514"),
        ("tcp://[::1]", "tcp://[::1]:601"),
        ("", ""),
    ],
)
def test_a_receiver_is_named_by_a_url(url: str, receiver: str) -> None:
    assert syslog_receiver("PROVING_AUDIT_SYSLOG", url) == receiver


@pytest.mark.parametrize("url", ["logs", "udp://logs", "tls://", "tls://logs/x", "tls://logs:99999", "tls://a:b@logs"])
def test_a_url_that_names_no_receiver_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="use tls://HOST:6514 or tcp://HOST:601"):
        syslog_receiver("PROVING_AUDIT_SYSLOG", url)

"""The web server under gunicorn, with clients that send slowly or never read."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

APP = """
def app(environ, start_response):
    read = environ["wsgi.input"].read()
    size = int(environ["PATH_INFO"].strip("/") or 2)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(size))])
    return [b"x" * size] if size > 2 else [b"ok"]
"""
QUICK = """
from apps import worker
worker.READ_S, worker.SEND_S = {read_s}, 1.0
Worker = worker.PatientWorker
"""
THREADS = 4


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """gunicorn with four threads, which gives a request three seconds and an unread answer one."""
    with serve(tmp_path_factory.mktemp("web"), read_s=3.0) as number:
        yield number


@pytest.fixture(scope="module")
def patient_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The same, but a request may take an hour."""
    with serve(tmp_path_factory.mktemp("patient"), read_s=3600.0) as number:
        yield number


@contextlib.contextmanager
def serve(folder: Path, read_s: float) -> Iterator[int]:
    (folder / "app.py").write_text(APP)
    (folder / "quick.py").write_text(QUICK.format(read_s=read_s))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    argv = [sys.executable, "-m", "gunicorn", "app:app", f"--pythonpath={folder},{Path.cwd()}", "--keep-alive=3"]
    argv += ["--worker-class=quick.Worker", f"--threads={THREADS}", f"--bind=127.0.0.1:{number}"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _await(number)
            yield number
        finally:
            server.terminate()


def _await(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError("gunicorn does not listen")


def assert_answers(port: int) -> None:
    """A normal request is answered. It would wait for a long time if other clients occupied all threads."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"ok"
    connection.close()


@contextlib.contextmanager
def clients(port: int, sent: bytes, count: int = 10 * THREADS) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as held:
        opened = [held.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(count)]
        for each in opened:
            each.sendall(sent)
        time.sleep(0.3)
        yield opened


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf",
    ],
    ids=["nothing", "half of the headers", "half of a body"],
)
def test_slow_requests_take_no_thread(patient_port: int, sent: bytes) -> None:
    with clients(patient_port, sent):
        assert_answers(patient_port)


def test_a_client_that_sends_byte_by_byte_is_disconnected(port: int) -> None:
    began = time.monotonic()
    with clients(port, b"GET / HTTP/1.1\r\n", count=1) as (slow,):
        while not (is_closed := _closed(slow)) and time.monotonic() - began < 60:
            with contextlib.suppress(OSError):  # closed meanwhile
                slow.sendall(b"x")
            time.sleep(0.2)

    assert is_closed and time.monotonic() - began > 2


def _closed(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_large_body_that_stalls_gives_its_thread_back(port: int) -> None:
    with clients(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\nhalf", count=THREADS):
        assert_answers(port)


def test_unread_responses_release_their_threads(port: int) -> None:
    with clients(port, b"GET /30000000 HTTP/1.1\r\nHost: x\r\n\r\n", count=THREADS):
        assert_answers(port)


def test_a_request_in_pieces_is_answered(port: int) -> None:
    with clients(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-", count=1) as (client,):
        for piece in (b"Length: 4\r\n", b"\r\nab", b"cd"):
            time.sleep(0.2)
            client.sendall(piece)
        assert client.recv(1000).startswith(b"HTTP/1.1 200")


def test_requests_one_after_the_other_share_a_connection(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    for body in (b"", b"x" * 1000, b"y" * 200_000):
        connection.request("POST", "/", body=body)
        assert connection.getresponse().read() == b"ok"
    connection.close()


def test_requests_that_are_sent_at_once_are_all_answered(port: int) -> None:
    with clients(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3, count=1) as (client,):
        got = b""
        while got.count(b"200 OK") < 3:
            got += client.recv(10_000)


@pytest.mark.thorough
def test_a_client_that_disconnects_costs_no_thread(port: int) -> None:
    with clients(port, b"GET / HT", count=1) as (client,):
        client.shutdown(socket.SHUT_WR)
        client.recv(1000)
    assert_answers(port)

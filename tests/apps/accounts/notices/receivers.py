"""Real receivers of notifications: an HTTP server with configurable responses, and a small SMTP server."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Got:
    """One request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """An HTTP server: `answers` are taken in turn, then 204. "drip" never ends; a function gets the request."""

    answers: list[Any] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    port: int = 0
    pause_s: float = 0.0


@contextmanager
def hook(*answers: Any, tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    receiver = Hook(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Got(self.command, self.path, dict(self.headers), body)
            receiver.got.append(request)
            time.sleep(receiver.pause_s)
            answer = receiver.answers.pop(0) if receiver.answers else 204
            if callable(answer):
                answer = answer(request)
            if answer == "drip":
                self._drip()
                return
            self.send_response(answer)
            if 300 <= answer < 400:
                self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST

        def _drip(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            try:
                while True:
                    self.wfile.write(b"X")
                    self.wfile.flush()
                    time.sleep(0.05)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A refused handshake is what some tests are about."""

    server = Quiet(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def ntfy(request: Got) -> int:
    """The status of a ntfy server with one topic, `private`, that needs the token tk_secret."""
    try:
        body = json.loads(request.body)
    except ValueError:
        return 400
    message = body["message"].encode()
    kinds = {"topic": str, "title": str, "message": str, "priority": int, "tags": list, "click": str}
    if any(not isinstance(body[name], kind) for name, kind in kinds.items()) or not 1 <= body["priority"] <= 5:
        return 400
    if (request.method, request.path) != ("POST", "/") or not re.fullmatch(r"[-_A-Za-z0-9]{1,64}", body["topic"]):
        return 400
    if len(message) > 4096 or len(request.body) > 8192:
        return 413
    token = request.headers.get("Authorization")
    if token not in (None, "Bearer tk_secret"):
        return 401
    return 403 if body["topic"] == "private" and token is None else 200


@dataclass
class Post:
    """An SMTP server that refuses the first `refusals` recipients and stores the mails of others."""

    port: int = 0
    refusals: int = 0
    mails: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def post_office() -> Iterator[Post]:
    office = Post()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            to = ""
            self.say("220 here")
            while line := self.rfile.readline().decode().strip():
                verb = line[:4].upper()
                if verb == "RCPT" and office.refusals:
                    office.refusals -= 1
                    self.say("450 come again")
                elif verb == "DATA":
                    self.say("354 go on")
                    office.mails.append((to, self.text()))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    to = line.partition(":")[2].strip("<> ") if verb == "RCPT" else to
                    self.say("250 ok")

        def text(self) -> str:
            lines = iter(self.rfile.readline, b".\r\n")
            return b"".join(lines).decode()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        office.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield office
        server.shutdown()


def closed_port() -> int:
    """A port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

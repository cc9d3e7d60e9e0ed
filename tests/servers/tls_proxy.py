"""A proxy that ends TLS, as nginx in front of the server does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers import certificates


@contextmanager
def tls_proxy(target: str, certificate: Path) -> Iterator[int]:
    """The port of a proxy that ends TLS and forwards requests to `target` with X-Forwarded-Proto,."""
    host = target.removeprefix("http://")

    class Forward(BaseHTTPRequestHandler):
        def forward(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            headers |= {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.9", "Connection": "close"}
            upstream = HTTPConnection(host, timeout=60)
            upstream.request(self.command, self.path, self.rfile.read(length), headers)
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = forward

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    server.daemon_threads = True
    server.socket = certificates.server_context(certificate).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()

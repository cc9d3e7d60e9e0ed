"""A network that loses answers: what was sent again is done once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from apps.campaigns.models import Campaign
from tests.cli.program import Program
from tests.rows.factories import make_host


class Lossy(ThreadingHTTPServer):
    """Hands everything on to `server`, and loses the answer to each POST the first time."""

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.server, self.lost = urlsplit(server), set[str]()


class Handler(BaseHTTPRequestHandler):
    server: Lossy

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        there = HTTPConnection(self.server.server.hostname or "", self.server.server.port)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        content = answer.read()
        if self.command == "POST" and self.path not in self.server.lost:
            self.server.lost.add(self.path)
            return  # the connection closes without a word
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _hand_on

    def log_message(self, *_: Any) -> None:
        """Quietly."""


@pytest.fixture
def lossy(proving: Program) -> Iterator[Lossy]:
    with Lossy(proving.url) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_campaign_is_made_and_started_once_though_both_answers_are_lost(proving: Program, lossy: Lossy) -> None:
    make_host("db1")
    proving.url = f"http://127.0.0.1:{lossy.server_port}"

    made = proving.json("run", "cpu-scaling", "--host", "db1")

    campaign = Campaign.objects.get()
    assert (str(campaign.pk), campaign.state, campaign.runs.count()) == (made["id"], "running", 9)
    assert len(lossy.lost) == 2

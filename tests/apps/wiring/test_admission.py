"""When a request starts to be computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from apps.middleware import admission
from apps.middleware.admission import Admission

PATIENCE_S = 60.0


class Server:
    """Requests in threads of their own. Each computes until it is released."""

    def __init__(self) -> None:
        self.started, self._asked = list[str](), dict[str, tuple[threading.Event, threading.Thread]]()
        self._middleware = Admission(self._compute)

    def ask(self, *paths: str) -> None:
        """Returns when each request has started or waits in line."""
        for path in paths:
            thread = threading.Thread(target=self._request, args=[path])
            self._asked[path] = threading.Event(), thread
            thread.start()
            wait(lambda: len(self.started) + len(self._middleware._line) >= len(self._asked))

    def release(self, path: str) -> None:
        """Returns when the request has ended."""
        released, thread = self._asked[path]
        released.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

    def end(self) -> None:
        for released, _ in self._asked.values():
            released.set()
        for _, thread in self._asked.values():
            thread.join(PATIENCE_S)

    def _request(self, path: str) -> None:
        try:
            self._middleware(RequestFactory().get(path))
        except ValueError:
            assert path == "/broken"

    def _compute(self, request: HttpRequest) -> HttpResponse:
        self.started.append(request.path)
        self._asked[request.path][0].wait(PATIENCE_S)
        if request.path == "/broken":
            raise ValueError
        return HttpResponse()


def wait(done: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.001)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture
def never_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LONG_S", 3600.0)


@pytest.mark.usefixtures("never_long")
def test_two_requests_are_computed_at_a_time(server: Server) -> None:
    server.ask("/a", "/b", "/c", "/d")

    assert server.started == ["/a", "/b"]


@pytest.mark.usefixtures("never_long")
def test_the_others_start_in_the_order_of_their_arrival(server: Server) -> None:
    server.ask("/a", "/b", "/c", "/d", "/e")

    for ended, next_one in (("/b", "/c"), ("/a", "/d"), ("/d", "/e")):
        server.release(ended)
        wait(lambda path=next_one: server.started[-1] == path)  # type: ignore[misc]

    assert server.started == ["/a", "/b", "/c", "/d", "/e"]


@pytest.mark.usefixtures("never_long")
def test_a_request_that_fails_makes_room(server: Server) -> None:
    server.ask("/broken", "/b", "/c")

    server.release("/broken")

    wait(lambda: server.started == ["/broken", "/b", "/c"])


def test_requests_that_take_long_make_room_for_others(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LONG_S", 0.02)

    server.ask("/a", "/b", "/c", "/d", "/e")

    wait(lambda: server.started == ["/a", "/b", "/c", "/d", "/e"])


@pytest.mark.usefixtures("never_long")
@pytest.mark.parametrize("probe", admission.PROBES)
def test_a_health_check_does_not_wait(server: Server, probe: str) -> None:
    server.ask("/a", "/b", "/c", probe)

    assert server.started == ["/a", "/b", probe]


@pytest.mark.usefixtures("never_long")
def test_a_hundred_requests_are_all_served(server: Server) -> None:
    paths = [f"/{number}" for number in range(100)]
    server.ask(*paths)

    for path in paths:
        server.release(path)

    assert server.started == paths

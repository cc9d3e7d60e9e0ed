"""Downloads do not hold a connection to PostgreSQL, and a timeout of the database is reported."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve, reverse

from apps.accounts.models import Role, User
from apps.hosts.models import Host
from apps.middleware import turns
from apps.middleware.detached_bodies import CHUNK, DetachedBody
from apps.middleware.turns import Turns
from tests.rows.factories import browser, make_host, make_user


@pytest.fixture
def http_request() -> HttpRequest:
    return RequestFactory().get("/")


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections as in the web server: a returned one is closed for this thread."""
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    connection.close()


def rows() -> Iterator[bytes]:
    for _ in range(3):
        with connection.cursor() as cursor:
            cursor.execute("SELECT repeat('x', %s)", [CHUNK])
            yield cursor.fetchone()[0].encode()


@pytest.mark.django_db(transaction=True)
def test_the_connection_is_released_before_the_first_byte(http_request: HttpRequest, pooled: None) -> None:
    def view(_: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(rows(), content_type="text/csv")

    answer: Any = DetachedBody(view)(http_request)

    assert connection.connection is None
    assert b"".join(answer.streaming_content) == b"x" * 3 * CHUNK
    assert connection.connection is None


@pytest.mark.django_db(transaction=True)
def test_the_connection_of_a_whole_answer_is_released(http_request: HttpRequest, pooled: None) -> None:
    def view(_: HttpRequest) -> HttpResponse:
        User.objects.count()
        return HttpResponse("ok")

    DetachedBody(view)(http_request)

    assert connection.connection is None


def test_events_are_sent_as_they_come(http_request: HttpRequest, db: None) -> None:
    made: list[int] = []

    def events() -> Iterator[bytes]:
        made.append(1)
        yield b"data: 1\n\n"

    def view(_: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(events(), content_type="text/event-stream")

    DetachedBody(view)(http_request)

    assert made == []


@pytest.mark.parametrize(("url", "kind"), [("/hosts/", "text/html"), ("/api/v1/hosts/", "application/problem+json")])
def test_a_database_that_gives_no_connection_is_503(
    viewer: User, monkeypatch: pytest.MonkeyPatch, url: str, kind: str
) -> None:
    client = browser(viewer)
    assert client.get(url).status_code == 200

    def none(*_: Any, **__: Any) -> Any:
        raise OperationalError("couldn't get a connection after 10.00 sec")

    monkeypatch.setattr(Host.objects, "get_queryset", none)
    monkeypatch.setattr("rest_framework.generics.GenericAPIView.get_queryset", none)
    answer = client.get(url)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.headers["Content-Type"].startswith(kind)


def test_a_database_that_gives_no_connection_before_the_view_is_503(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(make_user(Role.VIEWER))

    def none(*_: Any, **__: Any) -> Any:
        raise OperationalError("the database system is starting up")

    monkeypatch.setattr("apps.accounts.sessions.SessionStore.load", none)

    assert client.get(reverse("account")).status_code == 503


def test_a_conditional_write_that_cannot_be_alone_is_a_conflict(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.web.etags.TRIES", 2)
    monkeypatch.setattr("apps.web.etags._lock", lambda number: False)
    url = reverse("api:host-detail", args=[make_host().pk])

    answer = browser(admin).patch(url, {"labels": ["a"]}, format="json", headers={"If-Match": "*"})

    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "1")


class Asking:
    """The middleware with users whose requests have not ended."""

    def __init__(self) -> None:
        self._middleware, self.held = Turns(lambda _: HttpResponse()), list[Any]()

    def ask(self, user: User, url: str, method: str = "GET") -> HttpResponse | None:
        """The refusal of a request; None if it is served."""
        http_request = RequestFactory().generic(method, url)
        http_request.user, http_request.resolver_match = user, resolve(url)
        refused = self._middleware.process_view(http_request)
        self.held.append(self._middleware(http_request))
        return refused

    def fill(self, user: User) -> list[HttpResponse | None]:
        return [self.ask(user, reverse("audit_csv")) for _ in range(turns.MOST)]


def test_one_user_has_a_few_downloads_at_a_time(admin: User, viewer: User) -> None:
    asking, url = Asking(), reverse("audit_csv")

    first = asking.fill(admin)
    more, others = asking.ask(admin, url), asking.ask(viewer, url)
    asking.held.pop(0)
    after = asking.ask(admin, url)

    assert first == [None] * turns.MOST
    assert more is not None
    assert (more.status_code, others, after) == (429, None, None)
    assert more.headers["Refresh"] == more.headers["Retry-After"] == "5"


SEARCH = [uuid.UUID(int=1)]


@pytest.mark.parametrize(
    ("method", "name", "args", "is_refused"),
    [
        ("GET", "search", [], True),
        ("HEAD", "search", [], True),
        ("GET", "api:search", [], True),
        ("POST", "campaign_preview", [], True),
        ("GET", "searches_figure", [*SEARCH, "trials"], True),
        ("GET", "searches_list", [], False),
        ("GET", "searches_detail", SEARCH, True),
        ("POST", "searches_action", [*SEARCH, "stop"], False),
        ("GET", "api:search-list", [], False),
        ("POST", "api:search-stop", SEARCH, False),
    ],
)
def test_a_user_whose_charts_are_computed_can_stop_a_search(
    admin: User, method: str, name: str, args: list[Any], is_refused: bool
) -> None:
    """Each page of a search counted as the full-text search, and each POST as a page."""
    asking = Asking()
    asking.fill(admin)

    assert (asking.ask(admin, reverse(name, args=args), method) is not None) == is_refused


@pytest.mark.thorough
def test_discarded_responses_release_their_turns(admin: User) -> None:
    client = browser(admin)

    answers = []
    for _ in range(3 * turns.MOST):
        answers.append(client.get(reverse("audit_csv")).status_code)
        gc.collect()  # the test client's answers hold themselves

    assert answers == [200] * len(answers)

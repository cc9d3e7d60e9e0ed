"""One user does not stop the server for others: real attacks on gunicorn with the product's worker, and real locks."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
from django.db import connection, transaction
from django.urls import reverse

from apps.accounts.models import Role
from apps.hosts.models import Host
from apps.middleware import turns
from tests.apps.web_server import WebServer, cookie, serve
from tests.rows import filled
from tests.rows.factories import issue_token
from tests.rows.pinned import comparison

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("users")]  # one server for all tests

ANSWER_S = 60.0  # longer than the server waits for a lock or a connection, also on a busy machine
MANY = 44
LARGE = 8 * 1024**2  # more than the kernel buffers for a connection, so that a thread waits for the client


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with serve(tmp_path_factory.mktemp("web") / "log") as server:
        yield server


@pytest.fixture
def team(transactional_db: None) -> dict[str, Any]:
    return filled.team()


def ask(web: WebServer, method: str, url: str, body: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of one request on its own connection."""
    client = HTTPConnection("127.0.0.1", web.port, timeout=ANSWER_S)
    try:
        client.request(method, url, body or None, headers)
        answer = client.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        client.close()


@contextmanager
def unread(web: WebServer, url: str, headers: str, count: int) -> Iterator[list[socket.socket]]:
    """Clients that request `url` and read nothing."""
    with ExitStack() as held:
        clients = []
        for _ in range(count):
            client = held.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(ANSWER_S)
            client.connect(("127.0.0.1", web.port))
            client.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n\r\n".encode())
            clients.append(client)
        yield clients


def status_of(client: socket.socket) -> int:
    return int(client.recv(12).split()[1])


@contextmanager
def locked(*tables: str) -> Iterator[None]:
    """Another session of PostgreSQL holds these tables, as a long migration does."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(tables)}")
        yield


def test_downloads_that_are_not_read_leave_pages_to_others(web: WebServer, team: dict[str, Any]) -> None:
    artefact = team["ok_run"].artefacts.first()
    type(artefact).objects.filter(pk=artefact.pk).update(content=b"x" * LARGE, size=LARGE)
    url = reverse("run_artefact", args=[team["ok_run"].pk, artefact.pk])

    with unread(web, url, f"Cookie: {cookie(team['viewer'])}", MANY) as clients:
        status, *_ = ask(web, "GET", reverse("host_list"), Cookie=cookie(team["operator"]))
        statuses = Counter(status_of(client) for client in clients)

    assert status == 200
    assert set(statuses) <= {200, 429, 503}
    assert statuses[429]
    assert statuses[200] <= 2 * turns.MOST  # in two processes (embedded/commands.py)


def test_downloads_of_several_users_that_are_not_read_hold_no_connection(web: WebServer, team: dict[str, Any]) -> None:
    """Together they have more downloads than the pool of a process has connections (settings.py)."""
    artefact = team["ok_run"].artefacts.first()
    type(artefact).objects.filter(pk=artefact.pk).update(content=b"x" * LARGE, size=LARGE)
    url = reverse("run_artefact", args=[team["ok_run"].pk, artefact.pk])

    with ExitStack() as held:
        for role in (Role.VIEWER, Role.TUNER, Role.ADMIN):
            held.enter_context(unread(web, url, f"Cookie: {cookie(team[role.value])}", 2 * turns.MOST))
        others = {"Cookie": cookie(team["operator"])}
        statuses = [ask(web, "GET", reverse("host_list"), **others)[0] for _ in range(6)]

    assert statuses == [200] * 6


@pytest.mark.parametrize("name", ["campaign_explore", "campaign_explore_figure", "compare", "campaign_detail"])
def test_pages_that_compute_leave_connections_to_others(web: WebServer, team: dict[str, Any], name: str) -> None:
    """The pages wait for rows here, as long as a page that computes does. The first answer is a refusal."""
    finished = team["finished"]
    url = comparison(finished, "1 cpu", "2 cpus") if name == "compare" else reverse(name, args=[finished.pk])
    mine, others = {"Cookie": cookie(team["viewer"])}, {"Cookie": cookie(team["operator"])}
    with ThreadPoolExecutor(MANY) as threads:
        with locked("results_measurement"):
            waiting = [threads.submit(ask, web, "GET", url, **mine) for _ in range(MANY)]
            first = next(as_completed(waiting)).result()
            status, *_ = ask(web, "GET", reverse("host_list"), **others)
        statuses = {each.result()[0] for each in waiting}

    assert (first[0], first[1]["Retry-After"], status) == (429, "5", 200)
    assert b"of your downloads, charts and result pages are in progress" in first[2]
    kind = "application/problem+json" if name.endswith("figure") else "text/html"
    assert first[1]["Content-Type"].partition(";")[0] == kind
    assert statuses <= {200, 429, 503}
    assert ask(web, "GET", url, **mine)[0] == 200


def test_conditional_changes_at_once_are_made_one_after_another(web: WebServer, team: dict[str, Any]) -> None:
    """Each answer is success, conflict, a newer version or a busy database; and others are served meanwhile."""
    Host.objects.filter(pk=team["host"].pk).update(address="127.0.0.1")  # each change resolves it
    url = reverse("api:host-detail", args=[team["host"].pk])
    _, secret = issue_token(team["admin"], "script", Role.ADMIN)
    token = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    etag = ask(web, "GET", url, **token)[1]["ETag"]
    sent = [(etag if n % 2 else "*", json.dumps({"labels": [f"n{n}"]})) for n in range(40)]
    others = {"Cookie": cookie(team["operator"])}

    with ThreadPoolExecutor(len(sent)) as threads:
        waiting = [threads.submit(ask, web, "PATCH", url, body, **token, **{"If-Match": tag}) for tag, body in sent]
        status, *_ = ask(web, "GET", reverse("host_list"), **others)
        answers = [each.result() for each in waiting]

    statuses = Counter(answer[0] for answer in answers)
    assert status == 200
    assert set(statuses) <= {200, 409, 412, 503}
    assert statuses[200]
    changed = [json.loads(body)["labels"] for code, _, body in answers if code == 200]
    assert json.loads(ask(web, "GET", url, **token)[2])["labels"] in changed


@pytest.mark.parametrize("table", ["hosts_host", "accounts_user"])
def test_a_locked_table_is_answered_in_time(web: WebServer, team: dict[str, Any], table: str) -> None:
    """Also if the lock is met before the view, when the server reads who asks."""
    _, secret = issue_token(team["admin"], "script", Role.ADMIN)
    page, api = {"Cookie": cookie(team["viewer"])}, {"Authorization": f"Bearer {secret}"}
    with locked(table), ThreadPoolExecutor(2) as threads:
        shown = threads.submit(ask, web, "GET", reverse("host_list"), **page)
        listed = threads.submit(ask, web, "GET", reverse("api:host-list"), **api)
        answers = [shown.result(), listed.result()]

    assert [(status, headers["Retry-After"]) for status, headers, _ in answers] == [(503, "2")] * 2
    assert [headers["Content-Type"].partition(";")[0] for _, headers, _ in answers] == [
        "text/html",
        "application/problem+json",
    ]
    assert ask(web, "GET", reverse("host_list"), **page)[0] == 200


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("/feed/s3cr3t/timeline.atom?team=1", "/feed/[secret]/timeline.atom?team=1"),
        ("/password/MQ/s3cr3t-1/", "/password/MQ/[secret]/"),
    ],
)
def test_no_secret_of_an_address_is_logged(web: WebServer, team: dict[str, Any], address: str, shown: str) -> None:
    """Neither in the line of its request, nor as the page that another request came from."""
    ask(web, "GET", address)
    ask(web, "GET", f"/healthz?after={shown}", Referer=f"{web.url}{address}")

    text = web.logged(f'"GET {shown}', f'"GET /healthz?after={shown} HTTP/1.1" 200')
    assert "s3cr3t" not in text

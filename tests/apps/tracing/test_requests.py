"""Spans of requests and tasks: what they have, what they never have, and how many there are."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import DataError, connection
from django.test import Client, override_settings
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan

from apps import tracing
from apps.accounts.models import User
from apps.tracing import Interval, RunTrace, sdk, statements, tasks
from tests.apps.tracing.conftest import Spans

pytestmark = pytest.mark.django_db
MIDDLEWARE = ["apps.monitoring.request_spans.RequestSpan", *settings.MIDDLEWARE]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    with override_settings(MIDDLEWARE=MIDDLEWARE):
        yield


def text(spans: tuple[ReadableSpan, ...]) -> str:
    return "".join(span.to_json() for span in spans)


def by_name(spans: tuple[ReadableSpan, ...]) -> dict[str, Any]:
    return {span.name: span for span in spans}


def test_a_request_has_the_name_of_its_view_and_no_part_of_its_address(client: Client, spans: Spans) -> None:
    client.get("/password/Mg/c8a1xz-secret/?next=sesame", headers={"cookie": "a=sesame"})
    client.get("/sesame/nowhere/")

    found = by_name(spans())
    request = found["GET password_set"]
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["http.request.method"] == "GET"
    assert found["GET none"].attributes["http.response.status_code"] == 404
    assert "secret" not in text(spans()) and "sesame" not in text(spans())


def test_health_checks_have_no_span(client: Client, spans: Spans) -> None:
    client.get("/healthz")

    assert spans() == ()


def test_a_request_has_its_statements_without_their_parameters(client: Client, admin: User, spans: Spans) -> None:
    User.objects.filter(pk=admin.pk).update(username="open-sesame")
    client.force_login(admin)
    client.get("/hosts/?q=sesame")

    (request,) = [span for span in spans() if span.name.startswith("GET ")]
    inner = [span for span in spans() if span.parent and span.parent.span_id == request.context.span_id]
    assert request.attributes and len(inner) == request.attributes[statements.COUNT] > 0
    assert any("%s" in str((span.attributes or {})["db.query.text"]) for span in inner)
    assert "sesame" not in text(spans())


def test_a_client_that_takes_part_in_a_trace_is_only_linked(client: Client, spans: Spans) -> None:
    client.get("/login/", headers={"traceparent": TRACEPARENT})
    client.get("/login/", headers={"traceparent": "00-zz"})

    linked, other = [span for span in spans() if span.name == "GET login"]
    assert linked.parent is None and linked.context.trace_id != int(TRACE, 16)
    assert [(link.context.trace_id, link.context.span_id) for link in linked.links] == [
        (int(TRACE, 16), int(PARENT, 16))
    ]
    assert other.links == ()


@override_settings(TRACED_SHARE=0.0)
def test_with_share_0_only_runs_are_traced(client: Client, spans: Spans) -> None:
    run = uuid.uuid4()
    sdk.start(sdk._Process.provider._active_span_processor)
    client.get("/login/", headers={"traceparent": TRACEPARENT})
    with sdk.begun("click", Context()):
        headers = dict[str, Any]()
        tasks.send("campaigns.tick", headers, ((str(run),), {}, {}))
        tasks.send("hosts.check", headers, (("1",), {}, {}))
    work("hosts.check", headers, "1")
    work("campaigns.tick", headers, str(run))
    sdk.write_run(RunTrace(run, Interval("run", 1.0, 3.0), [Interval("queue", 1.0, 2.0)]))

    assert [span.name for span in spans()] == ["SELECT", "inner", "campaigns.tick", "run", "queue"]
    assert {span.context.trace_id for span in spans()} == {run.int}
    assert by_name(spans())["campaigns.tick"].links == (), "the request has no span to which a link leads"


def work(name: str, headers: dict[str, Any], argument: str, state: str = "SUCCESS") -> None:
    """What a worker does with a message."""
    tasks.begin(task=SimpleNamespace(name=name, request=headers), args=(argument,))
    with sdk.part("inner"):
        connection.cursor().execute("SELECT %s", ["sesame"])
    tasks.end(state=state)


def test_a_task_belongs_to_the_trace_of_its_run_or_of_what_sent_it(spans: Spans) -> None:
    run, headers = uuid.uuid4(), dict[str, Any]()
    with sdk.begun("click", Context()):
        tasks.send("hosts.check", headers, (("1",), {}, {}))
    work("hosts.check", headers, "1", state="FAILURE")
    work("campaigns.tick", headers, str(run))
    sdk.write_run(RunTrace(run, Interval("run", 1.0, 3.0), []))

    found = by_name(spans())
    click, check, tick, whole = (found[name] for name in ("click", "hosts.check", "campaigns.tick", "run"))
    assert (check.context.trace_id, check.parent.span_id) == (click.context.trace_id, click.context.span_id)
    assert not check.status.is_ok and check.attributes[sdk.ERROR_TYPE] == "FAILURE"
    assert (tick.context.trace_id, tick.parent.span_id) == (run.int, whole.context.span_id)
    assert [link.context.span_id for link in tick.links] == [click.context.span_id]
    assert whole.parent is None and whole.context.trace_id == run.int
    assert "sesame" not in text(spans())


@override_settings(OTLP_ENDPOINT="http://127.0.0.1:1")
def test_a_task_that_continues_with_another_run_goes_on_in_the_trace_of_that_run(spans: Spans) -> None:
    first, second = uuid.uuid4(), uuid.uuid4()
    tasks.begin(task=SimpleNamespace(name="campaigns.tick", request=dict[str, Any]()), args=(str(first),))

    tracing.continue_with("campaigns.tick", second)
    connection.cursor().execute("SELECT %s", ["sesame"])
    tasks.end(state="SUCCESS")

    begun, statement, following = spans()
    assert (begun.context.trace_id, begun.attributes[statements.COUNT]) == (first.int, 0)
    assert (following.context.trace_id, following.attributes[statements.COUNT]) == (second.int, 1)
    assert [link.context.span_id for link in following.links] == [begun.context.span_id]
    assert statement.parent.span_id == following.context.span_id


@override_settings(OTLP_ENDPOINT="http://127.0.0.1:1")
def test_outside_a_task_nothing_is_continued(spans: Spans) -> None:
    tracing.continue_with("campaigns.tick", uuid.uuid4())

    assert spans() == ()


def test_a_message_of_an_error_is_not_recorded(spans: Spans) -> None:
    with sdk.begun("task", Context()) as task, statements.recorded(task), pytest.raises(DataError):
        connection.cursor().execute("SELECT %s::date", ["sesame"])

    failed = by_name(spans())["SELECT"]
    assert not failed.status.is_ok and failed.attributes[sdk.ERROR_TYPE] == "DataError"
    assert "sesame" not in text(spans())


def test_statements_beyond_the_limit_are_counted(spans: Spans) -> None:
    with sdk.begun("task", Context()) as task, statements.recorded(task), connection.cursor() as cursor:
        for _ in range(statements.MOST + 3):
            cursor.execute("SELECT 1")

    attributes = by_name(spans())["task"].attributes
    assert len([span for span in spans() if span.name == "SELECT"]) == statements.MOST
    assert (attributes[statements.COUNT], attributes[statements.LEFT_OUT]) == (statements.MOST + 3, 3)

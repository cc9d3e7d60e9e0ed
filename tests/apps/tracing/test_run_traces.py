"""The spans of an ended run, from its rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from apps.campaigns.models import Run, RunEvent, RunPart
from apps.results import traces
from tests.apps.tracing.conftest import Spans
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    """A run of 10 s whose agent stopped it while it applied settings, with a server on another host."""
    run = make_campaign("running").runs.order_by("position")[0]
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(started_at=now)
    run.refresh_from_db()
    part = RunPart.objects.create(run=run, host=run.host, role="server", position=0, spec=run.spec)
    for owner in ({"run": run}, {"part": part}):
        _enter(owner, now, (2, "APPLYING"), (5, "ROLLING_BACK"), (8, "CLEAN"))
    run.state, run.outcome, run.ended_at = Run.State.ENDED, Run.Outcome.FAILED, now + timedelta(seconds=10)
    run.save()
    return run


def _enter(owner: dict[str, Any], began: datetime, *states: tuple[int, str]) -> None:
    for seq, (seconds, state) in enumerate(states, 1):
        at = began + timedelta(seconds=seconds)
        RunEvent.objects.create(**owner, seq=seq, at=at, kind="state", data={"state": state, "step": ""})


@override_settings(OTLP_ENDPOINT="http://unused")
def test_a_run_has_the_phases_of_each_of_its_hosts(run: Run, spans: Spans) -> None:
    traces.write(run)

    whole, *phases = spans()
    assert whole.name == "run" and not whole.status.is_ok
    assert whole.attributes and whole.attributes["proving.outcome"] == "failed"
    assert {span.parent.span_id for span in phases if span.parent} == {whole.context.span_id}
    own = [span.name for span in phases if "proving.role" not in (span.attributes or {})]
    of_server = [span for span in phases if "proving.role" in (span.attributes or {})]
    assert own == ["queue", "submit", "apply", "roll back", "collect"]
    assert [span.name for span in of_server] == ["submit", "apply", "roll back", "collect"]
    assert [round(((span.end_time or 0) - (span.start_time or 0)) / 1e9) for span in of_server] == [2, 3, 3, 2]


@override_settings(OTLP_ENDPOINT="http://unused")
def test_a_run_that_never_started_has_no_trace(run: Run, spans: Spans) -> None:
    run.started_at = None

    traces.write(run)

    assert spans() == ()


@override_settings(OTLP_ENDPOINT="http://unused")
def test_a_run_with_an_event_that_cannot_be_read_has_no_trace_and_is_logged(
    run: Run, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    RunEvent.objects.create(run=run, seq=9, at=timezone.now(), kind="measured", data={"ended": "late"})

    traces.write(run)

    assert spans() == ()
    assert f"the trace of run {run.pk} was not written" in caplog.text


def test_without_a_collector_a_run_is_not_read(run: Run, spans: Spans, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        traces.write(run)

    assert spans() == ()


@override_settings(OTLP_ENDPOINT="http://unused")
def test_the_queue_begins_when_the_run_before_it_has_ended(run: Run, spans: Spans) -> None:
    assert run.started_at
    before = Run.objects.exclude(pk=run.pk).filter(host=run.host)[0]
    ended = run.started_at - timedelta(seconds=3)
    Run.objects.filter(pk=before.pk).update(state="ended", outcome="ok", ended_at=ended)
    run.campaign.started_at = run.started_at - timedelta(days=1)
    run.campaign.save()

    traces.write(run)

    (queue,) = [span for span in spans() if span.name == "queue"]
    assert round(((queue.end_time or 0) - (queue.start_time or 0)) / 1e9, 3) == 3

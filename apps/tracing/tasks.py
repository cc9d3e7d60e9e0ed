"""Tasks as spans. A task of a run belongs to the trace of the run, with a link to what sent it; any other belongs to
the trace of what sent it. Arguments are not recorded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from celery import signals
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind

from apps.tracing import sdk, statements
from apps.tracing.runs import RUN

OF_RUNS = ("campaigns.tick", "results.ingest")  # their argument is the id of a run
_task = threading.local()


def connect() -> None:
    """Record the tasks that this process sends and carries out."""
    signals.before_task_publish.connect(send, dispatch_uid="trace")
    signals.task_prerun.connect(begin, dispatch_uid="trace")
    signals.task_postrun.connect(end, dispatch_uid="trace")
    signals.worker_process_shutdown.connect(stop, dispatch_uid="trace")


def send(sender: str, headers: dict[str, Any], body: Any, **_: Any) -> None:
    """Give the message the context of the present span."""
    present = trace.get_current_span()
    if not present.get_span_context().is_valid:
        return
    sdk.PROPAGATOR.inject(headers)
    run = run_of(sender, body[0] if isinstance(body, tuple) else ())
    present.add_event(f"send {sender}", {RUN: str(run)} if run else {})


def run_of(name: str, arguments: Sequence[Any]) -> UUID | None:
    """Return the run that a task works on; None for other tasks."""
    try:
        return UUID(str(arguments[0])) if name in OF_RUNS else None
    except (IndexError, ValueError):
        return None


def begin(task: Any, args: Sequence[Any], **_: Any) -> None:
    """Start the span of a task in its thread."""
    _end_last("unknown")
    _begin(_started(task.name, run_of(task.name, args), sdk.parse(task.request.get(sdk.TRACEPARENT))))


def continue_with(name: str, run: UUID) -> None:
    """End the span of this thread's task, and start that of a task of this run, if there is one."""
    if getattr(_task, "present", None) is None:
        return
    sent_by = trace.get_current_span().get_span_context()
    _end_last("SUCCESS")
    _begin(_started(name, run, sent_by))


def _begin(span: Span) -> None:
    stack = ExitStack()
    stack.enter_context(trace.use_span(span, record_exception=False, set_status_on_exception=False))
    if span.is_recording():
        stack.enter_context(statements.recorded(span))
    _task.present = span, stack


def _started(name: str, run: UUID | None, sent_by: SpanContext) -> Span:
    tracer, kind = sdk.tracer(), SpanKind.CONSUMER
    if run:
        is_elsewhere = sent_by.trace_flags.sampled and sent_by.trace_id != run.int
        links = [Link(sent_by)] if is_elsewhere else []
        return tracer.start_span(name, sdk.run_context(run), kind, {RUN: str(run)}, links)
    parent = trace.NonRecordingSpan(sent_by)
    return tracer.start_span(name, trace.set_span_in_context(parent, Context()), kind)


def end(state: str | None = None, **_: Any) -> None:
    """End the span of this thread's task."""
    _end_last(state or "unknown")


def _end_last(state: str) -> None:
    span, stack = getattr(_task, "present", None) or (None, None)
    if span is None or stack is None:
        return
    _task.present = None
    stack.close()
    if state != "SUCCESS":
        sdk.fail(span, state)
    span.end()


def stop(**_: Any) -> None:
    """Send the last spans of a process of the worker, which ends without the handlers of `atexit`."""
    sdk.stop()

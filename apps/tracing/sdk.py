"""The SDK of OpenTelemetry, configured once for each process, at its first span.

A process that was forked has its own: gunicorn and Celery fork their workers before these record anything.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from uuid import UUID, uuid4

from django.conf import settings
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

from apps import process
from apps.tracing.exporting import Exporter, Processor
from apps.tracing.runs import RUN, Interval, RunTrace, root_id, trace_id

TRACEPARENT = "traceparent"
PROPAGATOR = TraceContextTextMapPropagator()
ERROR_TYPE = "error.type"  # the name of a class; messages of errors may contain values, and are not recorded
_root_of: ContextVar[UUID | None] = ContextVar("root_of", default=None)


class Ids(RandomIdGenerator):
    """Random IDs, but for the span of a run."""

    def generate_trace_id(self) -> int:
        run = _root_of.get()
        return trace_id(run) if run else super().generate_trace_id()

    def generate_span_id(self) -> int:
        run = _root_of.get()
        return root_id(run) if run else super().generate_span_id()


class RunsAndShare(Sampler):
    """Chooses every run, and the configured share of everything else that begins a trace."""

    def __init__(self, share: float) -> None:
        self._share = TraceIdRatioBased(share)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        chooser = ALWAYS_ON if RUN in (attributes or {}) else self._share
        return chooser.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"runs, and {self._share.rate:g} of the rest"


class _Process:
    """The provider of this process, and the process that it belongs to."""

    pid = 0
    provider: TracerProvider
    tracer: trace.Tracer


_lock = threading.Lock()


def tracer() -> trace.Tracer:
    """Return the tracer of this process."""
    if _Process.pid != os.getpid():
        with _lock:
            if _Process.pid != os.getpid():
                start(Processor(Exporter(settings.OTLP_ENDPOINT, settings.OTLP_HEADERS, settings.OTLP_CA_BUNDLE)))
                atexit.register(stop)
    return _Process.tracer


def start(processor: SpanProcessor) -> None:
    """Give the spans of this process to `processor`."""
    sampler = ParentBased(RunsAndShare(settings.TRACED_SHARE))
    provider = TracerProvider(sampler, _resource(), shutdown_on_exit=False, id_generator=Ids())
    provider.add_span_processor(processor)
    _Process.provider, _Process.tracer = provider, provider.get_tracer("proving-ground", settings.VERSION)
    _Process.pid = os.getpid()


def _resource() -> Resource:
    return Resource.create(
        {
            "service.name": f"proving-{process.kind(sys.argv)}",
            "service.version": settings.VERSION,
            "service.instance.id": str(uuid4()),
        }
    )


def stop() -> None:
    """Send what this process has recorded, within exporting.STOP_S. It records nothing afterwards."""
    if _Process.pid == os.getpid():
        _Process.provider.shutdown()


def parse(traceparent: str | None) -> SpanContext:
    """Return the span that a W3C traceparent names; an invalid one if there is none."""
    carrier = {TRACEPARENT: traceparent} if traceparent else {}
    return trace.get_current_span(PROPAGATOR.extract(carrier, Context())).get_span_context()


def run_context(run: UUID) -> Context:
    """Return the context for spans of a run."""
    root = SpanContext(trace_id(run), root_id(run), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(root), Context())


def fail(span: Span, cause: str) -> None:
    """Mark a span as failed. `cause`: the name of a class or an outcome, never a message."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute(ERROR_TYPE, cause)


def begun(
    name: str,
    context: Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    links: Sequence[Link] = (),
    attributes: Attributes = None,
) -> AbstractContextManager[Span]:
    """Return a span that lasts as long as a `with` block. It records no exceptions, whose messages contain values."""
    quiet = {"record_exception": False, "set_status_on_exception": False}
    return tracer().start_as_current_span(name, context, kind, attributes, links, **quiet)


@contextmanager
def part(name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes = None) -> Iterator[None]:
    """Record the `with` block within the present span, if that is recorded."""
    if not trace.get_current_span().is_recording():
        yield
        return
    with begun(name, kind=kind, attributes=attributes) as span:
        try:
            yield
        except BaseException as error:
            fail(span, type(error).__name__)
            raise


def write_run(written: RunTrace) -> None:
    """Record the span of a run and those of its phases."""
    token = _root_of.set(written.run)
    try:
        root = _write(written.whole, Context(), {RUN: str(written.run)})
    finally:
        _root_of.reset(token)
    for phase in written.phases:
        _write(phase, trace.set_span_in_context(root, Context()), {})


def _write(interval: Interval, context: Context, more: dict[str, str]) -> Span:
    began, ended = round(interval.began * 1e9), round(interval.ended * 1e9)
    attributes = {**interval.attributes, **more}
    span = tracer().start_span(interval.name, context=context, start_time=began, attributes=attributes)
    if interval.has_failed:
        span.set_status(StatusCode.ERROR)
    span.end(ended)
    return span

"""The spans that this process records, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from apps.tracing import sdk

Spans = Callable[[], tuple[ReadableSpan, ...]]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Returns the spans that have ended."""
    monkeypatch.setattr(sdk._Process, "pid", 0)
    exporter = InMemorySpanExporter()
    sdk.start(SimpleSpanProcessor(exporter))
    yield exporter.get_finished_spans
    sdk._Process.provider.shutdown()

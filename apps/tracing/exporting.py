"""Sends spans to the collector from a thread, so that no request, run or stop of a process waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

EVERY_S = 2.0
QUEUE = 8192  # spans; more than that between two batches are dropped
SEND_S = 3.0
STOP_S = 1.0  # how long the end of a process may wait for its last spans
PAUSE_S = 30.0  # after a failure
log = logging.getLogger(__name__)


class ExportSession(requests.Session):
    """Remembers why the last request failed, without anything that it sent."""

    problem = ""

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        try:
            response = super().request(*arguments, **options)
        except requests.RequestException as error:
            self.problem = type(error).__name__
            raise
        # A redirect is not followed, so the spans have not been delivered.
        self.problem = "" if 200 <= response.status_code < 300 else f"status {response.status_code}"
        return response


class Exporter(SpanExporter):
    """Sends batches. After a failure it drops those of the next PAUSE_S; the log has the first failure, and the first
    success after it."""

    def __init__(self, url: str, headers: dict[str, str], ca_bundle: str) -> None:
        # It logs each failed batch.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._url, self._session = url, ExportSession()
        self._inner = OTLPSpanExporter(
            endpoint=url,
            certificate_file=ca_bundle or None,
            headers=headers,
            timeout=SEND_S,
            compression=Compression.Gzip,
            session=self._session,
        )
        self._lost, self._paused_until = 0, 0.0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if time.monotonic() >= self._paused_until and self._send(spans):
            return SpanExportResult.SUCCESS
        self._lost += len(spans)
        return SpanExportResult.FAILURE

    def _send(self, spans: Sequence[ReadableSpan]) -> bool:
        self._session.problem = "the spans cannot be encoded"
        self._inner.export(spans)
        if problem := self._session.problem:
            if not self._lost:
                log.warning("traces are dropped until the collector %s accepts them: %s", self._url, problem)
            self._paused_until = time.monotonic() + PAUSE_S
            return False
        if self._lost:
            log.warning("traces are sent again; %d spans were dropped", self._lost)
        self._lost = 0
        return True

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]


class Processor(BatchSpanProcessor):
    """Gathers the spans of this process. Its thread also starts in a process that is forked later."""

    def __init__(self, exporter: SpanExporter) -> None:
        super().__init__(exporter, max_queue_size=QUEUE, schedule_delay_millis=EVERY_S * 1000)

    def shutdown(self) -> None:
        """Send the last spans, within STOP_S."""
        self._batch_processor.shutdown(timeout_millis=int(STOP_S * 1000))

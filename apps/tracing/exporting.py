"""Sends spans to the collector from a thread, so that no request, run or stop of a process waits for it. Metrics, which
apps/monitoring/metric_push.py sends, share the delivery."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
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
        # A redirect is not followed, so the batch has not been delivered.
        self.problem = "" if 200 <= response.status_code < 300 else f"status {response.status_code}"
        return response


class Delivery:
    """Sends one signal to the collector. The log has the first failure, with its cause, and the first success after it.

    `until`: message of the failure, with URL and cause; `again`: message of the success, with the number of `lost`.
    """

    def __init__(self, url: str, until: str, again: str) -> None:
        # It logs each failed batch.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self.url, self.session, self.lost = url, ExportSession(), 0
        self._until, self._again = until, again

    def options(self, headers: dict[str, str], ca_bundle: str) -> dict[str, Any]:
        """Return the arguments for an exporter of OpenTelemetry."""
        return {
            "endpoint": self.url,
            "certificate_file": ca_bundle or None,
            "headers": headers,
            "timeout": SEND_S,
            "compression": Compression.Gzip,
            "session": self.session,
        }

    def succeeds(self, export: Callable[[], object]) -> bool:
        """Call `export`, which sends a batch with the session. Returns whether the collector accepted it; otherwise the
        caller adds to `lost`."""
        self.session.problem = "the batch cannot be encoded"
        export()
        if problem := self.session.problem:
            self.warn_once(self._until, self.url, problem)
            return False
        if self.lost:
            log.warning(self._again, self.lost)
        self.lost = 0
        return True

    def warn_once(self, message: str, *values: str) -> None:
        """Log why this batch is lost, unless the one before was lost, too."""
        if not self.lost:
            log.warning(message, *values)


class Exporter(SpanExporter):
    """Sends batches of spans. After a failure it drops those of the next PAUSE_S."""

    def __init__(self, url: str, headers: dict[str, str], ca_bundle: str) -> None:
        self._delivery = Delivery(
            url,
            "traces are dropped until the collector %s accepts them: %s; check it, and PROVING_OTLP_HEADERS",
            "traces are sent again; %d spans were dropped",
        )
        self._inner = OTLPSpanExporter(**self._delivery.options(headers, ca_bundle))
        self._paused_until = 0.0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if time.monotonic() >= self._paused_until:
            if self._delivery.succeeds(lambda: self._inner.export(spans)):
                return SpanExportResult.SUCCESS
            self._paused_until = time.monotonic() + PAUSE_S
        self._delivery.lost += len(spans)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]


class Processor(BatchSpanProcessor):
    """Gathers the spans of this process. Its thread also starts in a process that is forked later."""

    def __init__(self, exporter: SpanExporter) -> None:
        super().__init__(exporter, max_queue_size=QUEUE, schedule_delay_millis=EVERY_S * 1000)

    def shutdown(self) -> None:
        """Send the last spans, within STOP_S."""
        self._batch_processor.shutdown(timeout_millis=int(STOP_S * 1000))

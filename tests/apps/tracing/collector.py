"""A collector: it receives traces and metrics by OTLP over HTTP, as OpenTelemetry's own does, and keeps what it got."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

WAIT_S = 60.0
ERROR = 2  # status of a failed span


@dataclass(frozen=True)
class Received:
    """A span. Times in seconds since 1970."""

    service: str
    instance: str
    name: str
    trace: int
    id: int
    parent: int  # 0: none
    began: float
    ended: float
    attributes: dict[str, Any]
    links: list[tuple[int, int]]  # trace and span
    events: list[str]
    has_failed: bool


@dataclass(frozen=True)
class ReceivedMetric:
    """A metric with its data points, and the attributes of the resource that sent it."""

    resource: dict[str, Any]
    name: str
    help: str
    unit: str
    kind: str  # gauge, sum, histogram ...
    is_cumulative: bool
    points: list[Any]

    @property
    def samples(self) -> dict[str, float]:
        """Every sample by its name and labels, as /metrics writes them."""
        return dict(sample for point in self.points for sample in self._samples(point))

    def _samples(self, point: Any) -> Iterator[tuple[str, float]]:
        labels = [f'{row.key}="{row.value.string_value}"' for row in point.attributes]
        if self.kind == "gauge":
            yield _written(self.name, labels), point.as_double
            return
        bounds = [*map(str, point.explicit_bounds), "+Inf"]
        for bound, count in zip(bounds, accumulate(point.bucket_counts), strict=True):
            yield _written(f"{self.name}_bucket", [*labels, f'le="{bound}"']), count
        yield _written(f"{self.name}_sum", labels), point.sum
        yield _written(f"{self.name}_count", labels), point.count


def _written(name: str, labels: list[str]) -> str:
    return f"{name}{{{','.join(labels)}}}" if labels else name


@dataclass
class Collector:
    """What was received, and how the next batch is answered."""

    port: int
    status: int = 200
    hangs: bool = False  # reads requests, and answers none
    batches: list[bytes] = field(default_factory=list)  # of spans
    metric_batches: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Received]:
        return [span for batch in list(self.batches) for span in _spans(batch)]

    @property
    def metrics(self) -> list[ReceivedMetric]:
        """The metrics of the last batch."""
        return metrics_of(self.metric_batches[-1])

    def wait(self, found: Callable[[list[Received]], Any]) -> Any:
        """Return what `found` returns of all spans, as soon as it is true."""
        deadline = time.monotonic() + WAIT_S
        while not (result := found(self.spans)):
            assert time.monotonic() < deadline, sorted({(span.service, span.name) for span in self.spans})
            time.sleep(0.2)
        return result


def _spans(batch: bytes) -> Iterator[Received]:
    for of_resource in ExportTraceServiceRequest.FromString(batch).resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for span in [span for scope in of_resource.scope_spans for span in scope.spans]:
            yield Received(
                resource["service.name"],
                resource["service.instance.id"],
                span.name,
                int.from_bytes(span.trace_id, "big"),
                int.from_bytes(span.span_id, "big"),
                int.from_bytes(span.parent_span_id, "big"),
                span.start_time_unix_nano / 1e9,
                span.end_time_unix_nano / 1e9,
                _attributes(span.attributes),
                [(int.from_bytes(link.trace_id, "big"), int.from_bytes(link.span_id, "big")) for link in span.links],
                [event.name for event in span.events],
                span.status.code == ERROR,
            )


def metrics_of(batch: bytes) -> list[ReceivedMetric]:
    return [
        _metric(_attributes(of_resource.resource.attributes), metric)
        for of_resource in ExportMetricsServiceRequest.FromString(batch).resource_metrics
        for scope in of_resource.scope_metrics
        for metric in scope.metrics
    ]


def _metric(resource: dict[str, Any], metric: Metric) -> ReceivedMetric:
    kind = metric.WhichOneof("data") or ""
    data = getattr(metric, kind)
    is_cumulative = getattr(data, "aggregation_temporality", None) == CUMULATIVE
    return ReceivedMetric(
        resource, metric.name, metric.description, metric.unit, kind, is_cumulative, list(data.data_points)
    )


def _attributes(rows: Any) -> dict[str, Any]:
    return {row.key: _value(row.value) for row in rows}


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")


@contextmanager
def serve() -> Iterator[Collector]:
    """A collector on a free port, ended on the way out."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.collector = Collector(server.server_port)  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.collector  # type: ignore[attr-defined]
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        collector: Collector = self.server.collector  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if collector.hangs:
            self.rfile.read(1)  # until the client gives up
            return
        if self.path.strip("/").isdecimal():  # a test says how to answer from now on
            collector.status, answer = int(self.path.strip("/")), 200
        else:
            answer = collector.status
        if answer == 200 and not self.path.strip("/").isdecimal():
            batches = collector.metric_batches if self.path == "/v1/metrics" else collector.batches
            batches.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            collector.headers.append(dict(self.headers))
            collector.paths.add(self.path)
        self.send_response(answer)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def silent() -> Iterator[str]:
    """The URL of a port that accepts connections, and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"

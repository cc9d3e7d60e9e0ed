"""Sends the metrics of /metrics to a collector, as OTLP over HTTP. Loaded only with PROVING_OTLP_METRICS_EVERY_S.

Each metric is one of the whole instance, so one process has to send them: beat. It needs neither broker nor worker for
that, so the collector gets metrics also while these are down. A thread sends them, for which no periodic task waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings
from django.db import Error, connection
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export as otlp
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from apps.monitoring import metrics
from apps.monitoring.families import Counted, Family, Gauge, Labels
from apps.tracing.exporting import Delivery

NAME = "proving-ground"
# By the last word of a metric's name. Others have no unit: with "1", Prometheus would add "_ratio" to their names.
UNITS = {"seconds": "s", "bytes": "By"}
log = logging.getLogger(__name__)


class Pusher:
    """Sends all metrics. What could not be sent is not repeated: the next batch has newer values."""

    def __init__(self, url: str, headers: dict[str, str], ca_bundle: str) -> None:
        self._delivery = Delivery(
            url,
            "metrics are dropped until the collector %s accepts them: %s; check it, and PROVING_OTLP_HEADERS",
            "metrics are sent again; %d batches were dropped",
        )
        self._exporter = OTLPMetricExporter(**self._delivery.options(headers, ca_bundle))

    def push(self) -> bool:
        """Send one batch, within about exporting.SEND_S. Returns whether the collector accepted it."""
        is_sent = self._push()
        self._delivery.lost += not is_sent
        return is_sent

    def _push(self) -> bool:
        try:
            batch = converted(metrics.families(), time.time_ns())
        except Error as error:
            problem = type(error).__name__
            self._delivery.warn_once("metrics are dropped until PostgreSQL answers: %s; check /readyz", problem)
            return False
        return self._delivery.succeeds(lambda: self._exporter.export(batch))

    def push_forever(self, every_s: float) -> None:
        while True:
            began = time.monotonic()
            try:
                self.push()
            except Exception:
                log.exception("metrics were not sent; the next attempt is in %g s", every_s)
            finally:
                connection.close()
            time.sleep(max(0.0, began + every_s - time.monotonic()))


def start() -> None:
    """Start the thread that sends the metrics of this instance."""
    pusher = Pusher(settings.OTLP_METRICS_URL, settings.OTLP_HEADERS, settings.OTLP_CA_BUNDLE)
    every_s = settings.OTLP_METRICS_EVERY_S
    threading.Thread(target=pusher.push_forever, args=(every_s,), name="metric push", daemon=True).start()


def converted(families: Iterable[Family], now_ns: int) -> otlp.MetricsData:
    """Return a batch with the values of these families at `now_ns`. Families without values are left out."""
    converted_metrics = [_metric(family, now_ns) for family in families if family.values]
    scope = otlp.ScopeMetrics(InstrumentationScope(NAME, settings.VERSION), converted_metrics, "")
    return otlp.MetricsData([otlp.ResourceMetrics(_resource(), [scope], "")])


def _resource() -> Resource:
    """The instance, which has the same attributes whichever process sends."""
    return Resource.create(
        {
            "service.name": NAME,
            "service.version": settings.VERSION,
            "service.instance.id": urlsplit(settings.BASE_URL).netloc,
        }
    )


def _metric(family: Family, now_ns: int) -> otlp.Metric:
    unit = UNITS.get(family.name.rpartition("_")[2], "")
    return otlp.Metric(family.name, family.help, unit, _data(family, now_ns))


def _data(family: Family, now_ns: int) -> otlp.Gauge | otlp.Histogram:
    if isinstance(family, Gauge):
        gauge_points = [otlp.NumberDataPoint(dict(labels), 0, now_ns, value) for labels, value in family.values.items()]
        return otlp.Gauge(gauge_points)
    points = [
        _histogram_point(labels, counted, family.bounds, (family.began_ns, now_ns))
        for labels, counted in family.values.items()
    ]
    return otlp.Histogram(points, otlp.AggregationTemporality.CUMULATIVE)


def _histogram_point(
    labels: Labels, counted: Counted, bounds: tuple[float, ...], times_ns: tuple[int, int]
) -> otlp.HistogramDataPoint:
    return otlp.HistogramDataPoint(
        dict(labels),
        *times_ns,
        count=sum(counted.counts),
        sum=counted.sum,
        bucket_counts=counted.counts,
        explicit_bounds=bounds,
        min=None,  # type: ignore[arg-type]  # optional in OTLP; the server does not record it
        max=None,  # type: ignore[arg-type]
    )

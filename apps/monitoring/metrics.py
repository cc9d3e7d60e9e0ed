"""/metrics for Prometheus, in its text format 0.0.4.

Gauges are read from PostgreSQL and the broker at each scrape, and requests are counted in Redis (latencies.py), so
every process returns the same values. A scrape does not take longer as the history grows.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

from apps.accounts.audit import syslog
from apps.accounts.models import Channel, Delivery
from apps.accounts.models.walls import everything
from apps.campaigns.execution.queue import MAY_BEGIN
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host, Lease
from apps.monitoring import latencies
from apps.monitoring.families import Family, Gauge, Labels
from apps.results import queries

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUEUES = ("runs", "celery")
BROKER_S = 2
PRIVATE = "(private)"  # instead of the names of the hosts of private teams
# Headers set by proxies. With one of them, a loopback address says nothing about the client.
FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")


def _one(value: float) -> dict[Labels, float]:
    return {(): float(value)}


def _by(label: str, counted: dict[str, int]) -> dict[Labels, float]:
    return {((label, text),): float(count) for text, count in counted.items()}


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer clients that send PROVING_METRICS_TOKEN as a bearer token. If it is not set, answer only this machine,
    without a proxy."""
    if not _allowed(request):
        hint = _hint(request.META.get("REMOTE_ADDR", ""))
        return HttpResponse(hint, status=401, headers={"WWW-Authenticate": "Bearer"}, content_type="text/plain")
    lines = [line for family in families() for line in family.lines()]
    return HttpResponse("\n".join(lines) + "\n", content_type=CONTENT_TYPE)


def _hint(address: str) -> str:
    if settings.METRICS_TOKEN:
        return "send PROVING_METRICS_TOKEN as Authorization: Bearer TOKEN\n"
    return (
        f"{address}, as seen by the server, is not this machine: set PROVING_METRICS_TOKEN and send it as "
        "Authorization: Bearer TOKEN\n"
    )


def _allowed(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN:
        header = request.headers.get("Authorization", "")
        return constant_time_compare(header, f"Bearer {settings.METRICS_TOKEN}")
    if any(name in request.META for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def families() -> list[Family]:
    """Return all metrics. Without Redis, the histogram of requests is missing."""
    return [*gauges(), *latencies.families()]


def gauges() -> list[Gauge]:
    """Return all gauges. Totals include private teams, whose hosts are not named."""
    with everything():
        return [gauge for part in PARTS for gauge in part()]


def _runs() -> Iterator[Gauge]:
    open_runs = Run.objects.exclude(state=Run.State.ENDED).order_by()
    run_counts = {str(state): count for state, count in open_runs.values_list("state").annotate(Count("pk"))}
    states = [state.value for state in Run.State if state != Run.State.ENDED]
    yield Gauge(
        "proving_runs", "Runs that have not ended, by state.", _by("state", {s: run_counts.get(s, 0) for s in states})
    )
    yield Gauge("proving_queue_length", "Runs that are queued for a host.", _by("host", _queues()))
    unread = Run.objects.filter(state=Run.State.ENDED, ingested_at=None).count()
    yield Gauge("proving_runs_unread", "Ended runs with unprocessed results.", _one(unread))
    states_of = Campaign.objects.exclude(state__in=("finished", "cancelled")).order_by().values_list("state")
    counted = dict(states_of.annotate(Count("pk")))
    open_states = (Campaign.State.DRAFT, Campaign.State.RUNNING, Campaign.State.PAUSED)
    campaign_counts = {state.value: counted.get(state.value, 0) for state in open_states}
    yield Gauge("proving_campaigns", "Campaigns that have not ended, by state.", _by("state", campaign_counts))


def _queues() -> dict[str, int]:
    """Queued runs by host; PRIVATE for all hosts of private teams."""
    queued = Run.objects.filter(MAY_BEGIN).order_by().values_list("host").annotate(Count("pk"))
    waiting, lengths = dict(queued), Counter[str]()
    hosts = Host.objects.exclude(state=Host.State.ARCHIVE).values_list("pk", "name", "team__private")
    for pk, name, private in hosts:
        lengths[PRIVATE if private else name] += waiting.get(pk, 0)
    return dict(lengths)


def _ticks() -> Iterator[Gauge]:
    now = timezone.now()
    due = Run.objects.due(now).aggregate(Count("pk"), Min("next_tick_at"))
    oldest = due["next_tick_at__min"]
    late = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
    yield Gauge("proving_ticks_due", "Runs that are due for a tick but have no worker.", _one(due["pk__count"]))
    yield Gauge("proving_tick_lag_seconds", "Longest delay of these runs.", _one(late))
    held = Lease.objects.exclude(run=None)
    yield Gauge("proving_leases_held", "Machines in use by a run.", _one(held.count()))
    expired = held.filter(expires_at__lt=now).count()
    yield Gauge("proving_leases_expired", "Machines in use by a run without supervision.", _one(expired))


def _hosts() -> Iterator[Gauge]:
    counted = {str(state): count for state, count in Host.objects.order_by().values_list("state").annotate(Count("pk"))}
    counts = {state.value: counted.get(state.value, 0) for state in Host.State}
    yield Gauge("proving_hosts", "Hosts, by state.", _by("state", counts))
    apart = Host.objects.filter(state=Host.State.QUARANTINED).count()
    yield Gauge("proving_hosts_quarantined", "Hosts that need attention.", _one(apart))


def _notifications() -> Iterator[Gauge]:
    now = timezone.now()
    pending = Delivery.objects.filter(state=Delivery.State.PENDING, channel__active=True)
    totals = pending.aggregate(Count("pk"), Min("created_at"))
    oldest = totals["created_at__min"]
    yield Gauge("proving_notifications_pending", "Notifications not sent yet.", _one(totals["pk__count"]))
    age = (now - oldest).total_seconds() if oldest else 0.0
    yield Gauge("proving_notifications_oldest_seconds", "Delay of the oldest unsent notification.", _one(age))
    # The last try comes 17 hours after the first; each channel has its log by time.
    lately = Delivery.objects.filter(channel__in=Channel.objects.all(), created_at__gte=now - timedelta(days=2))
    failed = lately.filter(state=Delivery.State.FAILED, ended_at__gte=now - timedelta(days=1)).count()
    yield Gauge("proving_notifications_failed", "Notifications dropped within a day.", _one(failed))


def _audit_log() -> Iterator[Gauge]:
    yield Gauge("proving_audit_waiting", "Audit entries that the syslog receiver has not read.", _one(syslog.waiting()))


def _stores() -> Iterator[Gauge]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        yield Gauge("proving_database_bytes", "Size of the database.", _one(cursor.fetchone()[0]))
        cursor.execute(
            "SELECT coalesce(whole.relname, part.relname) AS name, sum(greatest(part.reltuples, 0))::bigint"
            " FROM pg_class part LEFT JOIN pg_inherits ON inhrelid = part.oid"
            " LEFT JOIN pg_class whole ON whole.oid = inhparent"
            " WHERE part.relkind = 'r' AND part.relnamespace = 'public'::regnamespace"
            " AND coalesce(whole.relname, part.relname)"
            " IN ('campaigns_run', 'campaigns_runevent', 'results_series', 'results_measurement') GROUP BY name"
        )
        rows = _by("table", dict(cursor.fetchall()))
    yield Gauge(
        "proving_table_rows", "Estimated rows of the growing tables, from PostgreSQL's planner statistics.", rows
    )
    lengths = _waiting()
    yield Gauge("proving_broker_up", "Whether the broker answers.", _one(bool(lengths)))
    yield Gauge("proving_broker_queue_length", "Tasks queued in the broker.", _by("queue", lengths))
    folded = queries.to_fold().count()
    yield Gauge("proving_runs_to_fold", "Runs with unprocessed events of samples.", _one(folded))


def _waiting() -> dict[str, int]:
    try:
        with current_app.connection_for_write(connect_timeout=BROKER_S) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_S)
            client: Any = broker.default_channel.client  # type: ignore[attr-defined]  # of redis
            return {queue: int(client.llen(queue)) for queue in QUEUES}
    except (OperationalError, OSError):
        return {}


PARTS: tuple[Callable[[], Iterator[Gauge]], ...] = (_runs, _ticks, _hosts, _notifications, _audit_log, _stores)

"""A finished campaign of two factors with an interaction: times of index look-ups grow with shared_buffers."""

from __future__ import annotations

import random
from datetime import timedelta

from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Value
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.execution import campaign_end
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results.models import Measurement
from tests.rows.factories import make_host
from tests.servers import machine

SIZES = ("8GB", "1GB", "128MB", "16MB")
PAGES = ("off", "on")
# ms of an index look-up: with huge pages the same at every size, without them the more the larger the cache.
LATENCY = {"off": (0.120, 0.103, 0.091, 0.084), "on": (0.081, 0.081, 0.082, 0.083)}
FACTORS = [
    {
        "name": "shared_buffers",
        "levels": [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in SIZES],
    },
    {
        "name": "huge pages",
        "levels": [{"label": use, "set": {"settings.huge_pages.use": use}} for use in PAGES],
    },
]


def host(name: str = "") -> Host:
    """One whose agent is root, as huge pages need."""
    return make_host(name, facts=machine.facts(), level="root")


def finished(
    by: User, on: Host, *, repetitions: int = 5, noise: float = 0.01, name: str = "Caches and huge pages"
) -> Campaign:
    """Every run ok; blocks differ, and runs within them by `noise`, a share."""
    options = {"builtin": "select-only", "scale": 10, "clients": 1, "jobs": 1, "time_s": 5}
    workload = workloads.save_workload("index-look-ups", single("pgbench", options), by=by)
    question = "Do huge pages gain more where shared_buffers is larger?"
    fields = {"name": name, "question": question, "metric": "latency_avg", "delta": 0.05, "seed": 3}
    made = services.create_campaign(
        by=by, host=on, workload=workload, factors=FACTORS, repetitions=repetitions, **fields
    )
    services.start_campaign(made, by=by)
    runs, chance = list(made.runs.order_by("position")), random.Random(11)
    blocks = [chance.gauss(1, noise) for _ in range(repetitions)]
    now = timezone.now() - timedelta(hours=1)
    rows = []
    for run in runs:
        ms = LATENCY[run.cell["huge pages"]][SIZES.index(run.cell["shared_buffers"])]
        ms *= blocks[run.block] * chance.gauss(1, noise)
        figures = (("latency_avg", ms, "ms", "lower"), ("tps", 1000 / ms, "tps", "higher"))
        for figure, value, unit, better in figures:
            rows.append(Measurement(run=run, step="measure", name=figure, value=value, unit=unit, better=better))
    Measurement.objects.bulk_create(rows)
    offset = ExpressionWrapper(F("position") * Value(timedelta(seconds=9)), output_field=DurationField())
    started = ExpressionWrapper(Value(now) + offset, output_field=DateTimeField())
    ended = ExpressionWrapper(Value(now + timedelta(seconds=8)) + offset, output_field=DateTimeField())
    made.runs.update(
        state=Run.State.ENDED, outcome=Run.Outcome.OK, next_tick_at=None, started_at=started, ended_at=ended,
        ingested_at=ended,
    )  # fmt: skip
    campaign_end.close_campaign(made.pk)
    made.refresh_from_db()
    return made

"""Tasks take an id and make one call."""

from __future__ import annotations

import time

from celery import shared_task
from django.utils import timezone

from apps import logs
from apps.campaigns.models import Run
from apps.infrastructure import faults
from apps.results import queries, traces
from apps.results.answers import interim_analyses
from apps.results.answers.history import regressions
from apps.results.store import campaign_cache, fold, retention
from apps.results.store import ingest as reading

BEGIN_S = 10.0  # no further run is read after this: each gets most of the task's time limit


@shared_task(name="results.ingest")
def ingest(run_id: str) -> None:
    run = Run.objects.select_related("campaign__workload").filter(pk=run_id).first()
    if run is None:  # it may be deleted meanwhile
        return
    with logs.about(run.pk):
        if reading.ingest(run):
            campaign_cache.fill(run.campaign)
            traces.write(run)


@shared_task(name="results.ingest_due")
def ingest_due() -> None:
    """Enqueue runs whose message was lost, and interim analyses that were not made after them."""
    until = time.monotonic() + BEGIN_S
    for run in queries.to_ingest():
        if time.monotonic() > until:
            break
        with logs.about(run.pk), faults.apart("reading results"):
            if reading.ingest(run):
                traces.write(run)
    interim_analyses.run_due_analyses()


@shared_task(name="results.fold_due")
def fold_due() -> None:
    """Enqueue active runs with many samples in events."""
    for run in queries.to_fold():
        # When it has ended, it fails because of the same error.
        with logs.about(run.pk), faults.apart("reading samples"):
            fold.fold(run, leave=fold.TAIL)


@shared_task(name="results.thin_due")
def thin_due() -> None:
    """Thin series that exceed the retention time."""
    retention.thin_due()


@shared_task(name="results.compare_scheduled")
def compare_scheduled() -> None:
    """Compare ended campaigns of schedules with earlier ones."""
    regressions.compare_due(timezone.now())

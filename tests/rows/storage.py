"""A finished campaign of storage."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.results.models import Measurement
from readers import measure

FAST = "/srv/pg"
SAMPLES = Path(__file__).parents[1] / "samples"
SECTIONS = {"rw-rand-libaio-mysql-ext4": "rand-libaio", "rw-seq-libaio-mysql-ext4": "seq-libaio"}
SECTIONS |= {"rw-rand-sync-pgsql-ext4": "rand-sync", "rw-seq-sync-pgsql-ext4": "seq-sync"}


def finished(by: User, on: Host) -> Campaign:
    """A finished campaign of the recipe `storage` on two file systems: as pg_test_fsync and fio once printed it, the
    disk below the clusters slower."""
    allowed_paths.allow(on, FAST, "directory", by=by)
    made = services.create_from_recipe(by=by, host=on, recipe="storage", repetitions=3, seed=1)
    services.start_campaign(made, by=by)
    now = timezone.now() - timedelta(hours=3)
    for place, run in enumerate(made.runs.order_by("position")):
        slower = 1 + 4 * (FAST not in run.label) + 0.01 * place
        Measurement.objects.bulk_create(_measured(run, slower))
        began = now + timedelta(minutes=9 * place)
        ended = {"started_at": began, "ended_at": began + timedelta(minutes=8), "ingested_at": timezone.now()}
        run_row = Run.objects.filter(pk=run.pk)
        run_row.update(state=Run.State.ENDED, outcome=Run.Outcome.OK, next_tick_at=None, **ended)
    campaign_end.close_campaign(made.pk)
    return made


def _measured(run: Run, slower: float) -> list[Measurement]:
    outputs = {"fsync": ("stdout", "pg_test_fsync-15.out"), "timing": ("stdout", "pg_test_timing-15-de_DE.out")}
    outputs["fio"] = ("fio.json", "fio-3.33-document_job.json")
    rows = []
    for step in run.spec["steps"]:
        name, file = outputs[step["name"]]
        printed = (SAMPLES / file).read_text()
        for theirs, ours in SECTIONS.items():
            printed = printed.replace(theirs, ours)
        for one in measure.measure(step["kind"], {name: printed.encode()}, step["options"]):
            value = one.value * slower if one.better == "lower" else one.value / slower
            row = Measurement(run=run, step=step["name"], name=one.name, value=value, unit=one.unit)
            row.better, row.definition = one.better, one.definition
            rows.append(row)
    return rows

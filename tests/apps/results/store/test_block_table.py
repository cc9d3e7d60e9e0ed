"""The table of samples: each run's blocks are in the partition of its month, and the migration loses none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from django.apps.registry import Apps
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from apps.campaigns.models import Run
from apps.infrastructure import months
from apps.results.models import Block
from apps.results.store import fold, retention, samples
from tests.rows.factories import make_campaign

LONG_AGO = datetime(2019, 5, 17, 12, tzinfo=UTC)
WHOLE = "0015_step_stability"
CONTENT = ("id", "group", "columns", "first", "samples", "begin", "end")


@pytest.fixture
def run(db: None) -> Run:
    """It started in May 2019."""
    months.add(LONG_AGO)
    run = make_campaign("running").runs.order_by("position")[0]
    run.started_at = LONG_AGO
    run.save(update_fields=["started_at"])
    return run


def append(run: Run, first: int, count: int) -> None:
    t = np.arange(first, first + count, dtype=float)
    fold.append(run, "measure", "memory", {"t": t, "MemFree": t * 2})


def partitions(run: Run) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select block.tableoid::regclass::text from results_blocks block"
            " join results_series series on series.id = series_id where run_id = %s",
            [run.pk],
        )
        return {name for (name,) in cursor.fetchall()}


def free(run: Run) -> list[float]:
    values: list[float] = samples.values_of(run.series.get(source="memory"), None, None)["MemFree"].tolist()
    return values


def test_all_samples_of_a_run_are_in_the_partition_of_its_start(run: Run) -> None:
    append(run, 0, 10)
    append(run, 10, 5000)

    assert partitions(run) == {"results_blocks_2019_05"}
    assert free(run) == [2.0 * t for t in range(5010)]


def test_a_block_from_before_there_were_months_is_continued_where_it_is(run: Run) -> None:
    append(run, 0, 10)
    Block.objects.update(month=months.KEPT)

    append(run, 10, 5)

    assert partitions(run) == {"results_block"}
    assert free(run) == [2.0 * t for t in range(15)]


def test_samples_after_a_full_block_from_before_go_to_the_month(run: Run) -> None:
    append(run, 0, fold.FULL)
    Block.objects.update(month=months.KEPT)

    append(run, fold.FULL, 5)

    assert partitions(run) == {"results_block", "results_blocks_2019_05"}
    assert free(run) == [2.0 * t for t in range(fold.FULL + 5)]


def test_thinned_samples_stay_in_their_partition(run: Run) -> None:
    append(run, 0, 600)
    Run.objects.filter(pk=run.pk).update(
        state="ended", outcome="ok", next_tick_at=None, ended_at=LONG_AGO, ingested_at=LONG_AGO
    )

    thinned = retention.thin(days=1, width_s=60.0)

    assert (thinned.series, thinned.samples_after) == (1, 10)
    assert partitions(run) == {"results_blocks_2019_05"}


def migrate(name: str) -> Apps:
    MigrationExecutor(connection).migrate([("results", name)])
    return MigrationExecutor(connection).loader.project_state([("results", name)]).apps


@pytest.fixture
def newest_afterwards(transactional_db: None) -> Iterator[None]:
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def rows(apps: Apps) -> list[tuple[Any, ...]]:
    blocks = apps.get_model("results", "Block").objects.order_by("id")
    return [(*rest, bytes(packed)) for *rest, packed in blocks.values_list(*CONTENT, "packed")]


@pytest.mark.thorough
def test_samples_become_the_first_partition_without_loss_and_the_last_release_still_writes(
    newest_afterwards: None, run: Run
) -> None:
    append(run, 0, 5000)
    old = migrate(WHOLE)
    before = rows(old)

    new = migrate("0018_blocks_by_month")

    assert rows(new) == before
    blocks = old.get_model("results", "Block").objects
    place, content = ("series", "group", "first"), ("samples", "packed")
    block = blocks.order_by("id").last()
    block.pk, block.samples = None, 7
    blocks.bulk_create([block], update_conflicts=True, unique_fields=place, update_fields=content)
    assert Block.objects.order_by("id").values_list("samples", flat=True).last() == 7
    assert Block.objects.count() == len(before)


@pytest.mark.thorough
def test_a_worker_that_stores_samples_during_the_migration_is_in_no_deadlock_with_it(
    newest_afterwards: None, run: Run
) -> None:
    append(run, 0, 10)
    migrate("0017_blocks_once_per_month")
    errors: list[DatabaseError] = []

    def upgrade() -> None:
        try:
            migrate("0018_blocks_by_month")
        except DatabaseError as error:
            errors.append(error)
        finally:
            connection.close()

    upgrading = threading.Thread(target=upgrade)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("select 1 from results_series for update")
        upgrading.start()
        while not is_waiting(cursor):
            time.sleep(0.01)
        cursor.execute("select count(*) from results_block")
    upgrading.join(60)

    assert errors == []
    assert partitions(run) == {"results_block"}


def is_waiting(cursor: Any) -> bool:
    """Whether the migration waits for a lock."""
    cursor.execute("select exists (select from pg_locks where not granted)")
    return bool(cursor.fetchone()[0])

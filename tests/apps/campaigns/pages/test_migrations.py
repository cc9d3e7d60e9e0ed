"""Migrations of rows that an older version wrote."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agents.wire.protocol import digest

pytestmark = pytest.mark.django_db(transaction=True)


def migrate(*targets: tuple[str, str | None]) -> Any:
    """The models as they are at these migrations."""
    executor = MigrationExecutor(connection)
    executor.migrate(list(targets))
    return MigrationExecutor(connection).loader.project_state(list(targets)).apps


def newest() -> list[tuple[str, str | None]]:
    return [(app, name) for app, name in MigrationExecutor(connection).loader.graph.leaf_nodes()]


def test_a_workload_of_one_kind_becomes_one_of_steps() -> None:
    try:
        old = migrate(("campaigns", "0004_collect")).get_model("campaigns", "Workload")
        old.objects.create(name="w", kind="pgbench", options={"clients": 8, "time_s": 60, "warmup_s": 10}, digest="x")

        new = migrate(("campaigns", "0005_steps")).get_model("campaigns", "Workload").objects.get()
    finally:
        migrate(*newest())

    assert new.steps == [
        {"name": "warm", "role": "warm", "kind": "pgbench", "options": {"clients": 8, "time_s": 10}},
        {"name": "measure", "role": "measure", "kind": "pgbench", "options": {"clients": 8, "time_s": 60}},
    ]
    assert new.digest == digest({"steps": new.steps})

"""Migrations of rows that an older version wrote."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from agents.wire.protocol import digest

BEFORE, AFTER = ("campaigns", "0004_collect"), ("campaigns", "0005_steps")


@pytest.mark.django_db
def test_a_workload_of_one_kind_becomes_one_of_steps() -> None:
    """In a schema with the tables of this migration alone. To go back to it from today's tables takes 30 s."""
    loader = MigrationLoader(None)
    state = loader.project_state([BEFORE])
    old = state.apps.get_model("campaigns", "Workload")
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA old; SET LOCAL search_path TO old, public")
    with connection.schema_editor() as editor:
        editor.create_model(old)
        editor.create_model(state.apps.get_model("campaigns", "Campaign"))
        old.objects.create(name="w", kind="pgbench", options={"clients": 8, "time_s": 60, "warmup_s": 10}, digest="x")

        migrated = loader.get_migration(*AFTER).apply(state, editor)

    new = migrated.apps.get_model("campaigns", "Workload").objects.get()
    assert new.steps == [
        {"name": "warm", "role": "warm", "kind": "pgbench", "options": {"clients": 8, "time_s": 10}},
        {"name": "measure", "role": "measure", "kind": "pgbench", "options": {"clients": 8, "time_s": 60}},
    ]
    assert new.digest == digest({"steps": new.steps})

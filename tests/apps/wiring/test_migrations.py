"""During an upgrade, processes of the last release work on the migrated tables: they find their columns, and can insert
rows without the new ones. `python -m tests.upgrade` shows it with such processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations.loader import MigrationLoader

from apps.accounts.models import ApiToken, User

# The last migrations of the last release, 0.2.0.
RELEASE = {
    "accounts": "0009_hashed_sessions",
    "campaigns": "0023_started_by",
    "decisions": "0007_teams",
    "hosts": "0013_consent_to_measure",
    "results": "0011_thinned",
    "tuning": "0003_teams",
}
# New constraints of its tables, each with the reason why its rows meet them.
MET = {
    "event_of_run_or_part": "its events of runs have a run, and those of parts go through a view",
    "artefact_of_run_or_part": "as event_of_run_or_part",
    "event_once_per_part": "its own constraint of the table that is a view now",
    "artefact_once_per_part": "as event_once_per_part",
}
LENGTH = re.compile(r"\((\d+)\)")
COLUMNS = """
SELECT attname, format_type(atttypid, NULL), atttypmod, attnotnull AND NOT atthasdef AND attidentity = ''
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


@pytest.fixture(scope="module")
def tables() -> list[type[models.Model]]:
    """The models of the last release, with those of its many-to-many relations."""
    apps = MigrationLoader(None).project_state(list(RELEASE.items())).apps
    return [model for model in apps.get_models(include_auto_created=True) if model._meta.app_label in RELEASE]


def columns(table: str) -> dict[str, tuple[str, int, bool]]:
    """Name -> (type, its modifier, whether an INSERT must name it) of a table or view."""
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS, [connection.ops.quote_name(table)])
        return {name: tuple(rest) for name, *rest in cursor.fetchall()}


def unusable(model: type[models.Model]) -> Iterator[str]:
    """Why the last release cannot work on the present table of a model."""
    present = columns(model._meta.db_table)
    expected: dict[str, Any] = {str(field.column): field for field in model._meta.local_concrete_fields}
    yield from (f"{name} is missing" for name in expected.keys() - present.keys())
    for name in expected.keys() & present.keys():
        field, (kind, modifier, is_needed) = expected[name], present[name]
        wanted = field.db_type(connection) or ""
        length = LENGTH.search(wanted)
        if is_needed and field.null:
            yield f"{name} was nullable"
        if LENGTH.sub("", wanted).replace("varchar", "character varying") != kind:
            yield f"{name} was {wanted}, is {kind}"
        if length and modifier - 4 < int(length[1]):
            yield f"{name} was longer"
    needed = {name for name, (_, _, is_needed) in present.items() if is_needed}
    yield from (f"{name} needs null=True or db_default=" for name in needed - expected.keys())


@pytest.mark.django_db
def test_the_last_release_reads_and_writes_its_tables(tables: list[type[models.Model]]) -> None:
    assert len(tables) > 40

    assert [f"{model._meta.db_table}: {reason}" for model in tables for reason in unusable(model)] == []


def test_rows_of_the_last_release_meet_new_constraints(tables: list[type[models.Model]]) -> None:
    known = {constraint.name for model in tables for constraint in model._meta.constraints}
    names = {model._meta.db_table for model in tables}
    present = list(MigrationLoader(None).project_state().apps.get_models())
    new = {each.name for model in present if model._meta.db_table in names for each in model._meta.constraints} - known

    assert new == MET.keys()


@pytest.mark.django_db
def test_the_last_release_can_issue_a_token(admin: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO accounts_apitoken (user_id, name, digest, role, created_at, expires_at)"
            " VALUES (%s, 'ci', 'x', 'viewer', now(), now())",
            [admin.pk],
        )

    token = ApiToken.objects.get()
    assert (token.scopes, token.networks) == ([], [])

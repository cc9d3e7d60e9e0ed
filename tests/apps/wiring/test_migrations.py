"""During an upgrade, processes of the version before work for some seconds on the migrated tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, models
from django.db.migrations import AddField
from django.db.migrations.loader import MigrationLoader

from apps.accounts.models import ApiToken, User

# The rule is younger than these and the ones before them.
BEFORE_THE_RULE = {
    "accounts": "0011_provider_accounts",
    "campaigns": "0031_one_event_table",
    "decisions": "0008_withdrawn",
    "hosts": "0017_remote_servers",
    "results": "0012_step_means",
    "searches": "0002_one_block",
    "tuning": "0003_teams",
}


def added_columns() -> Iterator[tuple[str, models.Field]]:  # type: ignore[type-arg]
    """("app.migration model.field", the field) of each column that a migration under the rule adds to a table."""
    for (app, name), migration in sorted(MigrationLoader(None).disk_migrations.items(), key=lambda item: item[0]):
        if app in BEFORE_THE_RULE and name > BEFORE_THE_RULE[app]:
            for operation in migration.operations:
                if isinstance(operation, AddField):
                    yield f"{app}.{name} {operation.model_name}.{operation.name}", operation.field


@pytest.mark.parametrize("field", [pytest.param(field, id=name) for name, field in added_columns()])
def test_rows_without_a_new_column_can_be_inserted(field: models.Field) -> None:  # type: ignore[type-arg]
    assert field.null or field.has_db_default() or field.many_to_many, "use null=True or db_default="


@pytest.mark.django_db
def test_the_version_before_can_issue_a_token(admin: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO accounts_apitoken (user_id, name, digest, role, created_at, expires_at)"
            " VALUES (%s, 'ci', 'x', 'viewer', now(), now())",
            [admin.pk],
        )

    token = ApiToken.objects.get()
    assert (token.scopes, token.networks) == ([], [])

import django.contrib.postgres.operations as postgres
from django.db import migrations, models

OF_PART = models.Q(("part__isnull", False))


def unique(model: str, column: str, name: str) -> list[migrations.RunSQL | migrations.SeparateDatabaseAndState]:
    """A unique index, built while others write. One that an interrupted attempt has left is built again."""
    create = (
        f'CREATE UNIQUE INDEX CONCURRENTLY "{name}" ON campaigns_{model} (part_id, {column}) WHERE part_id IS NOT NULL'
    )
    drop = f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"'
    constraint = models.UniqueConstraint(fields=["part", column], condition=OF_PART, name=name)
    return [
        migrations.RunSQL(drop, migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(create, drop)], [migrations.AddConstraint(model, constraint)]
        ),
    ]


class Migration(migrations.Migration):
    """Both tables are read twice, while others read and write them."""

    atomic = False

    dependencies = [
        ("campaigns", "0029_events_of_parts"),
    ]

    operations = [
        *unique("runevent", "seq", "event_once_per_part"),
        *unique("artefact", "path", "artefact_once_per_part"),
        postgres.ValidateConstraint("runevent", "event_of_run_or_part"),
        postgres.ValidateConstraint("artefact", "artefact_of_run_or_part"),
    ]

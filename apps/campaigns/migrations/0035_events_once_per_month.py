from django.db import migrations


def unique(name: str, columns: str) -> list[migrations.RunSQL]:
    """A unique index, built while others write. One that an interrupted attempt has left is built again."""
    drop = f"DROP INDEX CONCURRENTLY IF EXISTS {name}"
    return [
        migrations.RunSQL(drop, migrations.RunSQL.noop),
        migrations.RunSQL(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON campaigns_runevent {columns}", drop),
    ]


class Migration(migrations.Migration):
    """What the table needs to become a partition without being read then. It is read here, while others write."""

    atomic = False

    dependencies = [
        ("campaigns", "0034_month_of_events"),
    ]

    operations = [
        *unique("event_kept_once", "(run_id, seq, month)"),
        *unique("event_kept_once_per_part", "(part_id, seq, month) WHERE part_id IS NOT NULL"),
        migrations.RunSQL("ALTER TABLE campaigns_runevent VALIDATE CONSTRAINT event_is_kept", migrations.RunSQL.noop),
    ]

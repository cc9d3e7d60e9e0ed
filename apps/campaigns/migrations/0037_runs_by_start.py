import django.contrib.postgres.indexes
from django.db import migrations

DROP = "DROP INDEX CONCURRENTLY IF EXISTS run_by_start"
CREATE = "CREATE INDEX CONCURRENTLY run_by_start ON campaigns_run USING brin (started_at)"


class Migration(migrations.Migration):
    """Built while others write. One that an interrupted attempt has left is built again."""

    atomic = False

    dependencies = [
        ("campaigns", "0036_events_by_month"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(DROP, migrations.RunSQL.noop), migrations.RunSQL(CREATE, DROP)],
            [
                migrations.AddIndex(
                    "run", django.contrib.postgres.indexes.BrinIndex(fields=["started_at"], name="run_by_start")
                )
            ],
        )
    ]

from django.db import migrations

DROP = "DROP INDEX CONCURRENTLY IF EXISTS block_kept_once"
CREATE = 'CREATE UNIQUE INDEX CONCURRENTLY block_kept_once ON results_block (series_id, "group", first, month)'


class Migration(migrations.Migration):
    """What the table needs to become a partition without being read then. It is read here, while others write."""

    atomic = False

    dependencies = [
        ("results", "0016_month_of_blocks"),
    ]

    operations = [
        migrations.RunSQL(DROP, migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
        migrations.RunSQL("ALTER TABLE results_block VALIDATE CONSTRAINT block_is_kept", migrations.RunSQL.noop),
    ]

import django.db.models.deletion
from django.db import migrations, models

BY_CAMPAIGN = "campaigns_run_campaign_id_71a7911d"
DROP = "DROP INDEX CONCURRENTLY IF EXISTS run_content"
CREATE = (
    "CREATE INDEX CONCURRENTLY run_content ON campaigns_run (campaign_id) INCLUDE (content_hash, host_id, facts_id)"
)
DROP_OLD = f"DROP INDEX CONCURRENTLY IF EXISTS {BY_CAMPAIGN}"
CREATE_OLD = f"CREATE INDEX CONCURRENTLY {BY_CAMPAIGN} ON campaigns_run (campaign_id)"


class Migration(migrations.Migration):
    """Built while others write. One that an interrupted attempt has left is built again."""

    atomic = False

    dependencies = [
        ("campaigns", "0038_run_content_hash"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(DROP, migrations.RunSQL.noop),
                migrations.RunSQL(CREATE, DROP),
                migrations.RunSQL(DROP_OLD, CREATE_OLD),
            ],
            [
                migrations.AddIndex(
                    "run",
                    models.Index(fields=["campaign"], include=("content_hash", "host", "facts"), name="run_content"),
                ),
                migrations.AlterField(
                    "run",
                    "campaign",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="campaigns.campaign",
                    ),
                ),
            ],
        )
    ]

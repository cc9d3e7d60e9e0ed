from django.db import migrations, models

from apps.infrastructure.locks import exclusive

# A statement that names none of these columns costs nothing. `content_hash` itself is among them, because a row that is
# saved as a whole names it, too.
TRIGGER = """
CREATE FUNCTION run_content() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.content_hash := hash_record_extended(
        ROW(NEW.id, NEW.host_id, NEW.facts_id, NEW.state, NEW.outcome, NEW.block, NEW.position, NEW.retry_of_id,
            NEW.started_at, NEW.ingested_at), 0);
    RETURN NEW;
END $$;
CREATE TRIGGER run_content BEFORE INSERT OR UPDATE OF
    id, host_id, facts_id, state, outcome, block, position, retry_of_id, started_at, ingested_at, content_hash
ON campaigns_run FOR EACH ROW EXECUTE FUNCTION run_content();
"""
NO_TRIGGER = "DROP TRIGGER run_content ON campaigns_run; DROP FUNCTION run_content();"


class Migration(migrations.Migration):
    """Rows that exist keep 0, so nothing is written. When one of them changes, its hash does, too."""

    dependencies = [
        ("campaigns", "0037_runs_by_start"),
    ]

    operations = [
        migrations.RunSQL(exclusive("campaigns_run"), migrations.RunSQL.noop),
        migrations.AddField(
            "run",
            "content_hash",
            models.BigIntegerField(
                db_default=0,
                default=0,
                editable=False,
                help_text="of what the answers of its campaign depend on; set by the trigger run_content, 0 in older rows",
            ),
        ),
        migrations.RunSQL(TRIGGER, NO_TRIGGER),
    ]

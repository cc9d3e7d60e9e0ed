import django.db.models.deletion
from django.db import migrations, models

from apps.infrastructure.locks import exclusive

PART = {"null": True, "db_index": False, "on_delete": django.db.models.deletion.CASCADE, "to": "campaigns.runpart"}
# Locked, because a server of the last release would still write there.
LOCKS = exclusive("campaigns_run", "campaigns_runpart", "campaigns_partevent", "campaigns_partartefact")
FORWARD = """
INSERT INTO campaigns_runevent (part_id, seq, at, kind, data)
SELECT part_id, seq, at, kind, data FROM campaigns_partevent ORDER BY id;
INSERT INTO campaigns_artefact (part_id, path, size, sha256, content)
SELECT part_id, path, size, sha256, content FROM campaigns_partartefact ORDER BY id;
SET CONSTRAINTS ALL IMMEDIATE;
"""
BACK = """
INSERT INTO campaigns_partevent (part_id, seq, at, kind, data)
SELECT part_id, seq, at, kind, data FROM campaigns_runevent WHERE part_id IS NOT NULL ORDER BY id;
INSERT INTO campaigns_partartefact (part_id, path, size, sha256, content)
SELECT part_id, path, size, sha256, content FROM campaigns_artefact WHERE part_id IS NOT NULL ORDER BY id;
DELETE FROM campaigns_runevent WHERE part_id IS NOT NULL;
DELETE FROM campaigns_artefact WHERE part_id IS NOT NULL;
SET CONSTRAINTS ALL IMMEDIATE;
"""
# The last release serves until it is replaced, and still reads and writes its tables. A later release drops the views.
VIEWS = """
CREATE VIEW campaigns_partevent AS
SELECT id, part_id, seq, at, kind, data FROM campaigns_runevent WHERE part_id IS NOT NULL;
CREATE VIEW campaigns_partartefact AS
SELECT id, part_id, path, size, sha256, content FROM campaigns_artefact WHERE part_id IS NOT NULL;
"""
# The server's role, if it is another one than the owner, gets its rights from `runtime_role`, which runs only after all
# migrations. The last release needs these views before that.
RIGHTS = """
DO $$
DECLARE server text;
BEGIN
    FOR server IN
        SELECT grantee FROM information_schema.role_table_grants
        WHERE table_schema = current_schema AND table_name = 'campaigns_runevent'
        AND privilege_type = 'INSERT' AND grantee <> current_user
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON campaigns_partevent, campaigns_partartefact TO %I', server);
    END LOOP;
END
$$
"""
NO_VIEWS = "DROP VIEW campaigns_partevent, campaigns_partartefact"


class Migration(migrations.Migration):
    """Runs over several hosts are few: their rows are copied, those of other runs are not touched."""

    dependencies = [
        ("campaigns", "0030_events_of_parts_once"),
    ]

    operations = [
        migrations.RunSQL(LOCKS, migrations.RunSQL.noop),
        migrations.RunSQL(FORWARD, BACK),
        migrations.DeleteModel("PartEvent"),
        migrations.DeleteModel("PartArtefact"),
        migrations.RunSQL(VIEWS, NO_VIEWS),
        migrations.RunSQL(RIGHTS, migrations.RunSQL.noop),
        migrations.AlterField("runevent", "part", models.ForeignKey(related_name="events", **PART)),
        migrations.AlterField("artefact", "part", models.ForeignKey(related_name="artefacts", **PART)),
    ]

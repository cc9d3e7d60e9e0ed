"""The audit log can be added to and read, nothing else."""

from django.db import migrations

CREATE = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON accounts_auditentry
FOR EACH ROW EXECUTE FUNCTION refuse_change();
"""
DROP = "DROP TRIGGER audit_append_only ON accounts_auditentry; DROP FUNCTION refuse_change();"


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]

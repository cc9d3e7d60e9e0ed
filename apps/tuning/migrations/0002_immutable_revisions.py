"""A revision is never changed: runs and decisions point at what it said."""

from django.db import migrations

CREATE = """
CREATE TRIGGER revision_immutable BEFORE UPDATE ON tuning_revision
FOR EACH ROW EXECUTE FUNCTION refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("tuning", "0001_initial"), ("accounts", "0002_append_only")]
    operations = [migrations.RunSQL(CREATE, "DROP TRIGGER revision_immutable ON tuning_revision;")]

"""Sessions are kept by the hash of their key. Those that there are end: a backup may hold their keys as they were."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def end_all(apps: StateApps, _editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("accounts", "Session").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("accounts", "0008_teams")]

    operations = [
        migrations.RunPython(end_all, migrations.RunPython.noop, elidable=True),
    ]

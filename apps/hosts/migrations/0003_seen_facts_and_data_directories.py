from typing import Any

import django.utils.timezone
from django.db import migrations, models


def seen_when_taken(apps: Any, schema_editor: Any) -> None:
    """Of versions recorded before, no later look is known than the first."""
    apps.get_model("hosts", "Facts").objects.update(seen_at=models.F("taken_at"))


class Migration(migrations.Migration):
    dependencies = [("hosts", "0002_supervision_and_restarts")]

    operations = [
        migrations.AddField(
            model_name="host",
            name="pg_data_dirs",
            field=models.JSONField(blank=True, default=list, help_text="further data directories of clusters"),
        ),
        migrations.AddField(
            model_name="facts",
            name="seen_at",
            field=models.DateTimeField(default=django.utils.timezone.now, help_text="when it was last found"),
        ),
        migrations.AlterField(
            model_name="facts",
            name="taken_at",
            field=models.DateTimeField(auto_now_add=True, help_text="when it was first found"),
        ),
        migrations.RunPython(seen_when_taken, migrations.RunPython.noop),
    ]

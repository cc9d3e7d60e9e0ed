from django.contrib.postgres.indexes import GinIndex
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0004_notifications"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="auditentry",
            index=GinIndex(fields=["after"], opclasses=["jsonb_path_ops"], name="audit_after"),
        ),
    ]

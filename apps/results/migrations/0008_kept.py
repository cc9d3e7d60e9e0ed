import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0014_damaged_events"),
        ("results", "0007_within"),
    ]

    operations = [
        migrations.CreateModel(
            name="Kept",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("key", models.CharField(help_text="sum of all its sources", max_length=64)),
                ("value", models.BinaryField(help_text="JSON")),
                ("kept_at", models.DateTimeField(auto_now=True)),
                (
                    "campaign",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="kept", to="campaigns.campaign"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "kept",
                "ordering": ["campaign", "name"],
                "constraints": [models.UniqueConstraint(fields=("campaign", "name"), name="kept_once")],
            },
        ),
    ]

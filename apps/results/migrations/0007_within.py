import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0009_lifecycle"),
        ("results", "0006_looks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Within",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step", models.CharField(max_length=40)),
                ("steady", models.BooleanField(help_text="empty: too few samples for a result", null=True)),
                (
                    "trending",
                    models.BooleanField(default=False, help_text="it changed by the margin or more after its warm-up"),
                ),
                (
                    "stalled_s",
                    models.FloatField(default=0, help_text="seconds at less than a tenth of its median rate"),
                ),
                (
                    "few_checkpoints",
                    models.BooleanField(default=False, help_text="the step writes, but had fewer than two checkpoints"),
                ),
                ("data", models.JSONField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="within", to="campaigns.run"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "within",
                "ordering": ["run", "step"],
                "constraints": [models.UniqueConstraint(fields=("run", "step"), name="within_once")],
            },
        ),
    ]

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_audit_by_key"),
        ("results", "0008_kept"),
    ]

    operations = [
        migrations.CreateModel(
            name="Pin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(max_length=160)),
                ("note", models.TextField(blank=True, help_text="what it shows, or why it is watched")),
                (
                    "address",
                    models.CharField(help_text="path and query of the page, as places.py builds it", max_length=2000),
                ),
                ("chart", models.CharField(help_text="name of the chart on that page", max_length=40)),
                (
                    "position",
                    models.PositiveIntegerField(
                        blank=True, help_text="position on the dashboard; empty: not shown there", null=True
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-at", "-pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("address__regex", r"^/[^/\\]")), name="pin_within_this_server"
                    )
                ],
            },
        ),
    ]

"""Data sets and where they live; what kind a campaign is: one that makes a data set has no workload."""

import hashlib
import json
from typing import Any

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def without_prepare(apps: Any, schema_editor: Any) -> None:
    """Whether data are made anew is no longer a workload's to say."""
    for workload in apps.get_model("campaigns", "Workload").objects.all():
        named = [step["options"].pop("prepare", None) for step in workload.steps if step["kind"] == "pgbench"]
        if any(named):
            workload.digest = digest({"steps": workload.steps})
            workload.save(update_fields=["steps", "digest"])
    for campaign in apps.get_model("campaigns", "Campaign").objects.filter(state="draft"):
        levels = [level for factor in campaign.factors for level in factor["levels"]]
        paths = [path for level in levels for path in level["set"] if path.endswith(".prepare")]
        for level in levels:
            level["set"] = {path: value for path, value in level["set"].items() if path not in paths}
        if paths:
            campaign.save(update_fields=["factors"])


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0005_steps"),
        ("hosts", "0005_consent_to_use_clusters"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="campaign",
            name="kind",
            field=models.CharField(
                choices=[
                    ("comparison", "comparison: levels of factors, measured"),
                    ("preparation", "preparation: a data set is created or removed"),
                    ("imported", "imported: measured elsewhere"),
                ],
                default="comparison",
                max_length=11,
            ),
        ),
        migrations.AlterField(
            model_name="campaign",
            name="workload",
            field=models.ForeignKey(
                blank=True,
                help_text="of a comparison",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="campaigns",
                to="campaigns.workload",
            ),
        ),
        migrations.AlterField(
            model_name="campaign",
            name="metric",
            field=models.CharField(
                blank=True,
                default="tps",
                help_text="step.name if several are measured; empty if none is",
                max_length=80,
            ),
        ),
        migrations.CreateModel(
            name="DataSet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^(?!(add|keys|new)$)[a-z0-9][a-z0-9._-]{0,62}$",
                                "use 1 to 63 of a-z, 0-9, dot, dash and underscore, but not add, keys or new",
                            )
                        ],
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1)),
                ("kind", models.CharField(max_length=20)),
                ("options", models.JSONField(blank=True, default=dict, help_text="options of its kind")),
                (
                    "reset",
                    models.CharField(default="auto", help_text="how it is reset for a run that writes", max_length=6),
                ),
                ("digest", models.CharField(max_length=64)),
                ("description", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name", "-revision"],
            },
        ),
        migrations.CreateModel(
            name="DataCopy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("home", models.CharField(help_text="the private cluster's directory", max_length=500)),
                (
                    "fingerprint",
                    models.CharField(
                        help_text="digest of its definition and the major version of PostgreSQL", max_length=64
                    ),
                ),
                ("recipe", models.JSONField(help_text='{"kind", "options"}')),
                ("major", models.PositiveIntegerField()),
                ("database", models.CharField(max_length=63)),
                ("target", models.JSONField(help_text="of the last run that reported it")),
                ("initdb", models.JSONField(default=dict, help_text="the initdb setting of its cluster")),
                (
                    "state",
                    models.CharField(
                        choices=[("preparing", "Preparing"), ("pristine", "Pristine"), ("dirty", "Dirty")], max_length=9
                    ),
                ),
                ("size", models.PositiveBigIntegerField(default=0, help_text="bytes")),
                ("relations", models.JSONField(default=dict, help_text="relation -> {bytes, rows}")),
                ("seconds", models.JSONField(default=list, help_text="[[step of its creation, seconds]]")),
                ("made_at", models.DateTimeField(null=True)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="data_copies", to="hosts.host"
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="campaigns.run"
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="copies",
                        to="campaigns.dataset",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "data copies",
                "ordering": ["host", "home", "fingerprint"],
            },
        ),
        migrations.AddField(
            model_name="campaign",
            name="dataset",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="campaigns",
                to="campaigns.dataset",
            ),
        ),
        migrations.CreateModel(
            name="DataUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80)),
                (
                    "means",
                    models.CharField(help_text="pristine, copy, reinit, keep, prepared or removed", max_length=8),
                ),
                ("reason", models.TextField()),
                ("seconds", models.FloatField(default=0)),
                (
                    "wrote",
                    models.BooleanField(help_text="whether the run changed it; empty: unknown", null=True),
                ),
                (
                    "copy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="uses",
                        to="campaigns.datacopy",
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="data_use", to="campaigns.run"
                    ),
                ),
            ],
            options={
                "ordering": ["run"],
            },
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.UniqueConstraint(fields=("name", "revision"), name="dataset_revision_once"),
        ),
        migrations.AddConstraint(
            model_name="datacopy",
            constraint=models.UniqueConstraint(fields=("host", "home", "fingerprint"), name="data_copy_once"),
        ),
        migrations.RunPython(without_prepare, migrations.RunPython.noop),
    ]

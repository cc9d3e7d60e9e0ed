"""Recipes of the team, and which version of its recipe a campaign was made from."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0014_damaged_events"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="OwnRecipe",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=40)),
                ("version", models.PositiveIntegerField()),
                ("text", models.TextField(help_text="YAML, with its comments")),
                ("content", models.JSONField(help_text="the parsed recipe")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["name", "-version"],
                "constraints": [models.UniqueConstraint(fields=("name", "version"), name="own_recipe_version_once")],
            },
        ),
        migrations.AddField(
            model_name="campaign",
            name="recipe_version",
            field=models.PositiveIntegerField(
                blank=True, help_text="question of the recipe when the campaign was created", null=True
            ),
        ),
    ]

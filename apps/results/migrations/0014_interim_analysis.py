import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Only names of models and fields change, not those of tables and columns: the version before reads and writes
    them during an upgrade."""

    dependencies = [
        ("results", "0013_cached_answer"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("Look", "InterimAnalysis"),
                migrations.AlterModelTable("interimanalysis", "results_look"),
                migrations.AlterModelOptions(
                    "interimanalysis",
                    {"ordering": ["campaign", "number"], "verbose_name_plural": "interim analyses"},
                ),
                migrations.AlterField(
                    "interimanalysis",
                    "campaign",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="interim_analyses",
                        to="campaigns.campaign",
                    ),
                ),
                migrations.RenameField("interimanalysis", "found", "comparison"),
                migrations.AlterField(
                    "interimanalysis",
                    "comparison",
                    models.JSONField(
                        db_column="found",
                        help_text="adjusted for all analyses; null if there are too few data",
                        null=True,
                    ),
                ),
                migrations.RenameField("cachedanswer", "kept_at", "stored_at"),
                migrations.AlterField(
                    "cachedanswer", "stored_at", models.DateTimeField(auto_now=True, db_column="kept_at")
                ),
            ]
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    """Only names of fields change, not their columns: the version before reads and writes them during an upgrade."""

    dependencies = [
        ("decisions", "0009_texts"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("standing", "looked", "compared_facts"),
                migrations.AlterField(
                    "standing",
                    "compared_facts",
                    models.PositiveIntegerField(
                        db_column="looked",
                        default=0,
                        help_text="number of the last facts of the host that were compared",
                    ),
                ),
                migrations.RenameField("standing", "found", "drift_rows"),
                migrations.AlterField(
                    "standing",
                    "drift_rows",
                    models.JSONField(
                        blank=True,
                        db_column="found",
                        default=list,
                        help_text="rows of drift.py, from the last query of the host",
                    ),
                ),
            ]
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the name of the model changes, not its table: the version before reads and writes it during an upgrade."""

    dependencies = [
        ("results", "0014_interim_analysis"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("Within", "StepStability"),
                migrations.AlterModelOptions(
                    "stepstability", {"ordering": ["run", "step"], "verbose_name_plural": "step stabilities"}
                ),
                migrations.AlterModelTable("stepstability", "results_within"),
                migrations.AlterField(
                    "stepstability",
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="step_stabilities",
                        to="campaigns.run",
                    ),
                ),
            ]
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the name of the model changes, not its table: the version before reads and writes it during an upgrade."""

    dependencies = [
        ("results", "0012_step_means"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("Kept", "CachedAnswer"),
                migrations.AlterModelTable("cachedanswer", "results_kept"),
                migrations.AlterModelOptions(
                    "cachedanswer", {"ordering": ["campaign", "name"], "verbose_name_plural": "cached answers"}
                ),
                migrations.AlterField(
                    "cachedanswer",
                    "campaign",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="cached_answers",
                        to="campaigns.campaign",
                    ),
                ),
            ]
        ),
    ]

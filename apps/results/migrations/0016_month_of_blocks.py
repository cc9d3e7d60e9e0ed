from datetime import date

from django.db import migrations, models

KEPT = date(2000, 1, 1)


class Migration(migrations.Migration):
    """The column that selects the partition of a block of samples. Only the catalogue changes here, as for events."""

    dependencies = [
        ("results", "0015_step_stability"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    f"ALTER TABLE results_block ADD COLUMN month date DEFAULT '{KEPT}' NOT NULL, "
                    f"ADD CONSTRAINT block_is_kept CHECK (month = '{KEPT}') NOT VALID",
                    "ALTER TABLE results_block DROP COLUMN month",
                )
            ],
            [
                migrations.AddField(
                    "block",
                    "month",
                    models.DateField(
                        default=KEPT,
                        db_default=KEPT,
                        help_text="first day of the month in which the run started: selects the partition",
                    ),
                )
            ],
        )
    ]

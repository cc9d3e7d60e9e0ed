from datetime import date

from django.db import migrations, models

KEPT = date(2000, 1, 1)


class Migration(migrations.Migration):
    """The column that selects the partition of an event. Only the catalogue changes here, in milliseconds: a default
    that is a constant needs no rewrite, and the rows that are there are checked in the next step."""

    dependencies = [
        ("campaigns", "0033_read_attempts"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    f"ALTER TABLE campaigns_runevent ADD COLUMN month date DEFAULT '{KEPT}' NOT NULL, "
                    f"ADD CONSTRAINT event_is_kept CHECK (month = '{KEPT}') NOT VALID",
                    "ALTER TABLE campaigns_runevent DROP COLUMN month",
                )
            ],
            [
                migrations.AddField(
                    "runevent",
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

import django.contrib.postgres.operations as postgres
import django.db.models.deletion
from django.db import migrations, models

PART = {"null": True, "db_index": False, "on_delete": django.db.models.deletion.CASCADE, "to": "campaigns.runpart"}
RUN = {"null": True, "on_delete": django.db.models.deletion.CASCADE, "to": "campaigns.run"}
OF_RUN_OR_PART = models.Q(("run", None), ("part", None), _connector="XOR")


def nullable(model: str, name: str) -> migrations.SeparateDatabaseAndState:
    """Its run. Django would also drop the foreign key and check all rows when it makes it again."""
    table = f"ALTER TABLE campaigns_{model} ALTER COLUMN run_id"
    change = migrations.RunSQL(f"{table} DROP NOT NULL", f"{table} SET NOT NULL")
    state = migrations.AlterField(model, "run", models.ForeignKey(related_name=name, **RUN))
    return migrations.SeparateDatabaseAndState([change], [state])


class Migration(migrations.Migration):
    """Events and artefacts of parts go where those of runs are. Only the catalogue changes here, in milliseconds."""

    dependencies = [
        ("campaigns", "0028_twins"),
    ]

    operations = [
        migrations.AlterModelOptions("runevent", {"ordering": ["seq"]}),
        migrations.AlterModelOptions("artefact", {"ordering": ["path"]}),
        nullable("runevent", "events"),
        nullable("artefact", "artefacts"),
        # Beside those of the old tables, which have the names `events` and `artefacts` until these are dropped.
        migrations.AddField("runevent", "part", models.ForeignKey(related_name="+", **PART)),
        migrations.AddField("artefact", "part", models.ForeignKey(related_name="+", **PART)),
        postgres.AddConstraintNotValid(
            "runevent", models.CheckConstraint(condition=OF_RUN_OR_PART, name="event_of_run_or_part")
        ),
        postgres.AddConstraintNotValid(
            "artefact", models.CheckConstraint(condition=OF_RUN_OR_PART, name="artefact_of_run_or_part")
        ),
    ]

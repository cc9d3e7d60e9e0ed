from django.db import migrations, models


class Migration(migrations.Migration):
    """Only names of fields change, not their columns: the version before reads and writes them during an upgrade."""

    dependencies = [
        ("decisions", "0010_names_of_standings"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("event", "words", "text"),
                migrations.AlterField("event", "text", models.TextField(blank=True, db_column="words")),
                migrations.RenameField("review", "words", "text"),
                migrations.AlterField(
                    "review", "text", models.TextField(db_column="words", help_text="the result, in sentences")
                ),
            ]
        ),
    ]

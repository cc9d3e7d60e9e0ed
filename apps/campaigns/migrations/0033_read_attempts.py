from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0032_identity_of_used_data"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="read_attempts",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="attempts to read its results that did not end"
            ),
        ),
    ]

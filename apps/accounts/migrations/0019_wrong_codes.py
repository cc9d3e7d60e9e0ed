"""Wrong codes are counted for each user, because users with passkeys alone have recovery codes, too."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0018_passkeys"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="wrong_code_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="user",
            name="wrong_codes",
            field=models.PositiveIntegerField(
                db_default=0, default=0, help_text="wrong codes of the second factor since the last right one"
            ),
        ),
        # During an upgrade the version before still reads the column.
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="secondfactor", name="failed_at")]
        ),
        migrations.AlterField(
            model_name="secondfactor",
            name="failures",
            field=models.PositiveIntegerField(default=0, help_text="wrong codes during the enrolment"),
        ),
    ]

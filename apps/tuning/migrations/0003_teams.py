import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_teams"),
        ("tuning", "0002_immutable_revisions"),
    ]

    operations = [
        migrations.AddField(
            model_name="profile",
            name="team",
            field=models.ForeignKey(
                blank=True,
                help_text="owning team; null: none, so instance roles apply",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="%(class)ss",
                to="accounts.team",
            ),
        ),
    ]

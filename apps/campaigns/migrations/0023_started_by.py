import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("campaigns", "0022_withdrawn_recipes"),
    ]

    operations = [
        migrations.AddField(
            model_name="campaign",
            name="started_by",
            field=models.ForeignKey(
                blank=True,
                help_text="the user whose permissions its runs have",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]

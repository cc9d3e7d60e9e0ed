from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0025_compared_slots")]

    operations = [
        migrations.AddField(
            model_name="campaign",
            name="archived_at",
            field=models.DateTimeField(blank=True, help_text="since when lists leave it out", null=True),
        ),
    ]

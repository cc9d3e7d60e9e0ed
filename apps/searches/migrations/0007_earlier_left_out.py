from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("searches", "0006_earlier_trials"),
    ]

    operations = [
        migrations.AddField(
            model_name="search",
            name="earlier_left_out",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="why other trials of earlier searches are not used -> their number",
            ),
        ),
    ]

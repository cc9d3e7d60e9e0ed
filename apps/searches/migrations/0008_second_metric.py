from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("searches", "0007_earlier_left_out"),
    ]

    operations = [
        migrations.AddField(
            model_name="search",
            name="picked",
            field=models.JSONField(
                blank=True,
                db_default=[],
                default=list,
                help_text="numbers of the trials that a user picked to confirm",
            ),
        ),
        migrations.AddField(
            model_name="search",
            name="second_metric",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="second objective; empty: only the campaign's",
                max_length=80,
            ),
        ),
        migrations.AddField(
            model_name="trial",
            name="second_high",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="trial",
            name="second_log_ratio",
            field=models.FloatField(blank=True, help_text="of the second metric", null=True),
        ),
        migrations.AddField(
            model_name="trial",
            name="second_low",
            field=models.FloatField(blank=True, null=True),
        ),
    ]

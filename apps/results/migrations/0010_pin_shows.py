from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("results", "0009_pin"),
    ]

    operations = [
        migrations.AddField(
            model_name="pin",
            name="shows",
            field=models.CharField(blank=True, default="", help_text="title of the chart on its page", max_length=400),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="pin",
            name="note",
            field=models.TextField(blank=True, help_text="why it is watched, or what to do when it changes"),
        ),
    ]

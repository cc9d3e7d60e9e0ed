from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0008_withdrawn"),
    ]

    operations = [
        migrations.AlterField(
            model_name="decision",
            name="decision",
            field=models.TextField(help_text="what changes from now on, and where"),
        ),
        migrations.AlterField(
            model_name="decision",
            name="options",
            field=models.TextField(
                blank=True,
                help_text="the alternatives, and why they were not chosen",
                verbose_name="options considered",
            ),
        ),
        migrations.AlterField(
            model_name="decision",
            name="question",
            field=models.TextField(help_text="default: that of the campaign"),
        ),
        migrations.AlterField(
            model_name="decision",
            name="reasons",
            field=models.TextField(blank=True, help_text="arguments for and against"),
        ),
    ]

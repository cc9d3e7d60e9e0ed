from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0031_one_event_table"),
    ]

    operations = [
        migrations.AddField(
            model_name="datause",
            name="definition",
            field=models.CharField(
                db_default="", help_text="digest of kind, options and PostgreSQL's major version", max_length=64
            ),
        ),
        migrations.AddField(
            model_name="datause",
            name="fingerprint",
            field=models.CharField(db_default="", help_text="of the data; see DataCopy", max_length=64),
        ),
    ]

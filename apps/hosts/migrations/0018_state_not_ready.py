from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hosts", "0017_remote_servers"),
    ]

    operations = [
        migrations.AlterField(
            model_name="host",
            name="state",
            field=models.CharField(
                choices=[
                    ("new", "new: its host key is not approved yet"),
                    ("ready", "ready"),
                    ("unreachable", "unreachable"),
                    ("unfit", "not ready: a health check failed"),
                    ("quarantined", "quarantined: an admin has to check it"),
                    ("archive", "archive: exists only in imported results"),
                ],
                default="new",
                max_length=12,
            ),
        ),
    ]

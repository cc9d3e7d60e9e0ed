from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("hosts", "0012_agent_version")]

    operations = [
        migrations.AlterField(
            model_name="clusterconsent",
            name="may",
            field=models.CharField(
                choices=[
                    ("measure", "measure"),
                    ("restart", "restart"),
                    ("disturb_clients", "disturb the clients of"),
                ],
                max_length=15,
            ),
        ),
    ]

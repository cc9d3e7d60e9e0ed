from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_append_only")]
    operations = [
        migrations.AddField(
            model_name="user",
            name="may_run_commands",
            field=models.BooleanField(
                default=False, help_text="create and start workloads that execute programs or scripts of the user"
            ),
        ),
    ]

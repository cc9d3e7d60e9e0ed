from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def bind(apps, schema_editor):
    """What is known already stays: the machine-id of each host belongs to the key that is pinned."""
    keys, hosts = apps.get_model("hosts", "HostKey"), apps.get_model("hosts", "Host")
    known = hosts.objects.filter(pk=OuterRef("host_id")).values("machine_id")[:1]
    keys.objects.filter(state="pinned").update(machine_id=Subquery(known))


class Migration(migrations.Migration):
    dependencies = [("hosts", "0014_launcher")]

    operations = [
        migrations.AddField(
            "host",
            "claimed_machine_id",
            models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="refused until an admin accepts it",
                max_length=64,
            ),
        ),
        migrations.AddField(
            "hostkey",
            "machine_id",
            models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="of the machine with this key; see machines.py",
                max_length=64,
            ),
        ),
        migrations.RunPython(bind, migrations.RunPython.noop),
    ]

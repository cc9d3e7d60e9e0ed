from django.db import migrations, models

OPEN = models.Q(("state", "ended"), _negated=True)
GOING_ON = models.Q(("state__in", ["finished", "cancelled"]), _negated=True)
NOT_OK = models.Q(("outcome__in", ["failed", "interrupted", "not_in_effect"]))
RESTARTED = models.Q(("manifest__timings__has_key", "REBOOTING"))


class Migration(migrations.Migration):
    """Pages and queues ask for the newest, and for what has not ended: as quick among a million runs as among a few."""

    dependencies = [
        ("campaigns", "0015_own_recipes"),
    ]

    operations = [
        migrations.AddIndex("campaign", models.Index(fields=["-created_at", "-id"], name="campaign_newest")),
        migrations.AddIndex("campaign", models.Index(fields=["-ended_at", "-id"], name="campaign_ended")),
        migrations.AddIndex(
            "campaign", models.Index(fields=["host", "-ended_at", "-id"], name="campaign_ended_on_host")
        ),
        migrations.AddIndex("campaign", models.Index(fields=["state"], condition=GOING_ON, name="campaign_open")),
        migrations.AddIndex("run", models.Index(fields=["host"], condition=OPEN, name="run_open_on_host")),
        migrations.AddIndex("run", models.Index(fields=["host", "-ended_at"], name="run_newest_on_host")),
        migrations.AddIndex("run", models.Index(fields=["campaign"], condition=NOT_OK, name="run_not_ok")),
        migrations.AddIndex(
            "run", models.Index(fields=["host", "-ended_at"], condition=RESTARTED, name="run_that_restarted")
        ),
    ]

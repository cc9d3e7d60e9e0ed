"""The chain of the audit log. The periodic work seals the entries that exist already, the oldest first."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0012_token_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditStream",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "sent",
                    models.PositiveBigIntegerField(
                        default=0, help_text="number of the last seal that the receiver has read"
                    ),
                ),
                ("sent_at", models.DateTimeField(null=True)),
                ("failed_at", models.DateTimeField(help_text="last attempt, where it failed", null=True)),
                ("error", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                (
                    "number",
                    models.PositiveBigIntegerField(
                        help_text="1, 2, 3, ... without gaps", primary_key=True, serialize=False
                    ),
                ),
                (
                    "digest",
                    models.CharField(help_text="SHA-256 of the entry and of the digest before it", max_length=64),
                ),
                (
                    "entry",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="seal", to="accounts.auditentry"
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.RunSQL(
            "CREATE TRIGGER seal_append_only BEFORE UPDATE OR DELETE ON accounts_auditseal"
            " FOR EACH ROW EXECUTE FUNCTION refuse_change()",
            "DROP TRIGGER seal_append_only ON accounts_auditseal",
        ),
    ]

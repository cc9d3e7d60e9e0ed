from django.db import migrations

COLUMNS = (("host", "launcher", "false"), ("host", "claimed_machine_id", "''"), ("hostkey", "machine_id", "''"))


class Migration(migrations.Migration):
    """The defaults of columns that 0014 and 0015 add, for databases in which these ran before they had them."""

    dependencies = [
        ("hosts", "0021_secret_references"),
    ]

    operations = [
        migrations.RunSQL(
            [
                f"ALTER TABLE hosts_{table} ALTER COLUMN {column} SET DEFAULT {value}"
                for table, column, value in COLUMNS
            ],
            migrations.RunSQL.noop,
        )
    ]

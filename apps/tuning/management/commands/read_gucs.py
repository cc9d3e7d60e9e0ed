"""Write gucs.json from the pg_settings of this project's own server."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection

from apps.tuning import gucs

QUERY = """
SELECT name, vartype, unit, min_val, max_val, enumvals, context, short_desc, boot_val
FROM pg_settings WHERE name !~ '[.]' ORDER BY name
"""


class Command(BaseCommand):
    help = "Read PostgreSQL's parameters from this server into apps/tuning/gucs.json."

    def handle(self, *args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(QUERY)
            columns = [column.name for column in cursor.description][1:]
            rows = {name: dict(zip(columns, values, strict=True)) for name, *values in cursor.fetchall()}
        gucs.FILE.write_text(json.dumps(rows, indent=1) + "\n")
        self.stdout.write(f"{len(rows)} parameters into {gucs.FILE}")

"""manage.py runtime_role NAME < PASSWORD"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.operation import runtime_role
from common.errors import PlanError


class Command(BaseCommand):
    help = "Create or update the PostgreSQL role that the server uses. Run it as the owner, after each migrate."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="such as proving_app")
        parser.add_argument("--keep-password", action="store_true", help="do not read a password from standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        password = "" if options["keep_password"] else sys.stdin.readline().rstrip("\n")
        if not options["keep_password"] and len(password) < runtime_role.SHORTEST_PASSWORD:
            raise CommandError(
                f"standard input contains no password of at least {runtime_role.SHORTEST_PASSWORD} characters; use "
                "--keep-password to keep the current one"
            )
        try:
            runtime_role.prepare(options["name"], password)
        except PlanError as error:
            raise CommandError(f"{error}; {error.hint}") from error
        self.stdout.write(f"{options['name']} can read and write rows, and append to the audit log.")

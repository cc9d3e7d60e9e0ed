"""manage.py restore FILE: what `backup` wrote becomes this server's database again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.operation import backup, sealed
from common.errors import ProvingError


class Command(BaseCommand):
    help = (
        "Restore FILE, or standard input for -, into an empty database in one transaction, and migrate it to "
        "this version."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file written by backup; - reads standard input")
        parser.add_argument("--replace", action="store_true", help="drop all existing data first")

    def handle(self, *, file: Path, replace: bool, **_: Any) -> None:
        try:
            if str(file) == "-":
                manifest = backup.restore_from(sys.stdin.buffer, "standard input", replace=replace)
            else:
                manifest = backup.restore(file, replace=replace)
        except ProvingError as error:
            raise CommandError(str(error)) from error
        closed = sealed.needed()[1]
        self.stdout.write(f"restored {sum(manifest['rows'].values())} rows of {manifest['made_at']}, and migrated")
        for what in closed:
            self.stderr.write(
                f"warning: no key of PROVING_SSH_KEYS decrypts the secret of {what}: add its original key"
            )

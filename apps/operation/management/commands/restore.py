"""manage.py restore FILE: restores a file of `backup` into the database of this server, or only checks it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.operation import backup, encrypted_fields
from common.errors import ProvingError


class Command(BaseCommand):
    help = (
        "Restore FILE, or standard input for -, into an empty database in one transaction, and migrate it to "
        "this version."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file written by backup; - reads standard input")
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument("--replace", action="store_true", help="drop all existing data first")
        mode.add_argument(
            "--check", action="store_true", help="restore into a temporary database, verify it there, and drop it"
        )

    def handle(self, *, file: Path, replace: bool, check: bool, **_: Any) -> None:
        if check:
            self.check_backup(file)
        else:
            self.restore(file, replace)

    def check_backup(self, file: Path) -> None:
        try:
            piped = str(file) == "-"
            checked = backup.verify_from(sys.stdin.buffer, "standard input") if piped else backup.verify_file(file)
        except ProvingError as error:
            raise CommandError(str(error)) from error
        rows, made_at = sum(checked.manifest["rows"].values()), checked.manifest["made_at"]
        self.stdout.write(
            f"{file} can be restored: {rows} rows of {made_at}; the audit log is intact to {checked.seal}"
        )
        self.warn(checked.undecryptable)

    def restore(self, file: Path, replace: bool) -> None:
        try:
            if str(file) == "-":
                manifest = backup.restore_from(sys.stdin.buffer, "standard input", replace=replace)
            else:
                manifest = backup.restore(file, replace=replace)
        except ProvingError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"restored {sum(manifest['rows'].values())} rows of {manifest['made_at']}, and migrated")
        self.warn(encrypted_fields.needed()[1])

    def warn(self, undecryptable: list[str]) -> None:
        for name in undecryptable:
            self.stderr.write(
                f"warning: no key of PROVING_SSH_KEYS decrypts the secret of {name}: add its original key"
            )

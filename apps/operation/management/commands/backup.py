"""manage.py backup FILE: everything of this server in one file, but its keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.operation import backup
from common.errors import ProvingError


class Command(BaseCommand):
    help = "Back up the database to FILE, or to standard output for -, with a manifest. The server can keep running."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a new file; - writes to standard output")

    def handle(self, *, file: Path, **_: Any) -> None:
        piped = str(file) == "-"
        if piped and sys.stdout.isatty():
            raise CommandError("standard output is a terminal: redirect it to a file, as in: backup - > all.tar")
        try:
            manifest = backup.backup_to(sys.stdout.buffer) if piped else backup.backup(file)
        except ProvingError as error:
            raise CommandError(str(error)) from error
        # Standard output holds the backup alone.
        dump, out = manifest["files"][backup.DUMP], self.stderr if piped else self.stdout
        out.write(f"{file}: {sum(manifest['rows'].values())} rows, sha256 of the dump {dump['sha256']}")
        for name, why in manifest["not_in_it"].items():
            out.write(f"not included, keep it elsewhere: {name}: {why}")
        out.write(f"requires the keys of PROVING_SSH_KEYS with the fingerprints {', '.join(manifest['keys']) or '-'}")
        for what in manifest["opened_by_none"]:
            self.stderr.write(
                f"warning: no key of PROVING_SSH_KEYS decrypts the secret of {what}, now or after a restore"
            )

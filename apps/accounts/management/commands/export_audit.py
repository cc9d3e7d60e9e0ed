"""manage.py export_audit FILE: the sealed audit log as lines of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.audit import chain


class Command(BaseCommand):
    help = "Seal the audit log and write it to FILE, or to standard output for -, one JSON object per line."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a new file; - writes to standard output")

    def handle(self, *, file: Path, **_: Any) -> None:
        chain.seal()
        if str(file) == "-":
            for line in chain.lines():
                sys.stdout.write(_encoded(line))
            return
        try:
            with file.open("x", encoding="ascii") as out:
                last = chain.EMPTY
                for line in chain.lines():
                    out.write(_encoded(line))
                    last = chain.Head(line["number"], line["digest"])
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}; name a new file in a directory that exists") from error
        self.stdout.write(f"{file}: {last.number} entries; the last seal is {last}")


def _encoded(line: dict[str, Any]) -> str:
    """ASCII, so that no text of an entry controls a terminal."""
    return json.dumps(line) + "\n"

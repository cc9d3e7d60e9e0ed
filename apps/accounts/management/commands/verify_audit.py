"""manage.py verify_audit [FILE]: verifies the chain of the audit log, or of an export of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.audit import chain
from common.errors import PlanError

SHOWN = 20


class Command(BaseCommand):
    help = "Verify the audit log of the database, or an export of it, which needs no database. Fails if it was changed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="an export; - reads standard input; none: the database")
        parser.add_argument("--head", default="", metavar="NUMBER:DIGEST", help="a seal that must be in the chain")

    def handle(self, *, file: Path | None, head: str, **_: Any) -> None:
        try:
            noted = chain.Head.of(head) if head else None
            last, faults = chain.verify(_exported(file) if file else chain.lines(), noted)
        except PlanError as error:
            raise CommandError(str(error)) from error
        if not file and (unsealed := chain.unsealed()):
            minutes = int(chain.SEALED_WITHIN.total_seconds()) // 60
            faults.append(f"entries older than {minutes} minutes without a seal: {unsealed}; is the beat running?")
        if faults:
            more = [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
            raise CommandError("the audit log is not intact:\n" + "\n".join([*faults[:SHOWN], *more]))
        self.stdout.write(f"intact: {last.number} entries; the last seal is {last}")


def _exported(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of an export, which may be forged. PlanError names the first line that is not an entry."""
    hint = "accepted: a file of export_audit"
    try:
        source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    except OSError as error:
        raise PlanError("file", f"{file}: {error.strerror}", hint=hint) from error
    with source:
        for number, text in enumerate(source, 1):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                line = None
            if not _is_entry(line):
                start = text[:40].decode(errors="replace")
                raise PlanError("file", f"{file}, line {number} is not an entry: {start!r}", hint=hint)
            yield line


def _is_entry(line: Any) -> bool:
    complete = isinstance(line, dict) and all(name in line for name in (*chain.COVERED, "digest"))
    return complete and isinstance(line["number"], int) and isinstance(line["digest"], str)

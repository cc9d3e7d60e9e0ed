"""manage.py verify_audit [FILE]: verifies the chain of the audit log, or of an export of it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.audit import chain
from common.errors import PlanError

LONGEST_LINE = 64 << 20  # bytes
DIGEST = re.compile("[0-9a-f]{64}")


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
        except RecursionError as error:
            raise CommandError(f"{file}: an entry is nested deeper than the server writes them") from error
        if not file and (unsealed := chain.unsealed()):
            minutes = int(chain.SEAL_DELAY.total_seconds()) // 60
            faults.append(f"entries older than {minutes} minutes without a seal: {unsealed}; is the beat running?")
        if faults:
            raise CommandError("the audit log is not intact:\n" + "\n".join(faults))
        self.stdout.write(f"intact: {last.number} entries; the last seal is {last}")


def _exported(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of an export, which may be forged. PlanError names the first line that is not an entry."""
    hint = "accepted: a file of export_audit"
    try:
        source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    except OSError as error:
        raise PlanError("file", f"{file}: {error.strerror}", hint=hint) from error
    with source:
        for number, text in enumerate(iter(lambda: source.readline(LONGEST_LINE), b""), 1):
            try:
                line = DECODER.decode(text.decode())
            except (ValueError, RecursionError):
                line = None
            if not _is_entry(line):
                start = text[:40].decode(errors="replace")
                raise PlanError("file", f"{file}, line {number} is not an entry: {start!r}", hint=hint)
            yield line


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no name is repeated, because readers differ in which of its values they use."""
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError
    return made


def _no_constant(_: str) -> None:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError


DECODER = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_no_constant)


def _is_entry(line: Any) -> bool:
    """Whether a line has the fields that a seal covers, and no other ones. Errors print its number, id and digest."""
    if not isinstance(line, dict) or line.keys() != {*chain.COVERED, "digest"}:
        return False
    has_numbers = all(type(line[name]) is int and 0 < line[name] < 1 << 63 for name in ("number", "id"))
    return has_numbers and isinstance(line["digest"], str) and bool(DIGEST.fullmatch(line["digest"]))

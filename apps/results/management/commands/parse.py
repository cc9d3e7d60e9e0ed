"""Say what a tool's output says: reads files, prints JSON, and needs neither database nor settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.errors import FormatError
from readers.formats import FORMATS
from readers.guess import as_json, read

MOST_BYTES = 1 << 30


class Command(BaseCommand):
    help = "Print as JSON what is understood of the output of pgbench, fio, sysbench, EXPLAIN and others."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        kinds = "; ".join(f"{kind}: {one.title}" for kind, one in FORMATS.items())
        parser.add_argument("files", nargs="+", metavar="FILE", help="a file, or - for standard input")
        parser.add_argument("--as", dest="kind", default="", metavar="KIND", help=f"do not guess. {kinds}")

    def handle(self, *args: Any, **options: Any) -> None:
        understood, failed = [], 0
        for name in options["files"]:
            try:
                understood.append(_understood(name, options["kind"]))
            except FormatError as error:
                failed += 1
                self.stderr.write(f"{name}: {error}")
            except OSError as error:
                failed += 1
                self.stderr.write(f"{name}: {error.strerror}")
        self.stdout.write(json.dumps(understood, indent=2, ensure_ascii=False))
        if failed:
            sys.exit(1)


def _understood(name: str, kind: str) -> dict[str, Any]:
    kind, result = read(_content(name), kind)
    return {"file": name, "kind": kind, "title": FORMATS[kind].title, "result": as_json(result)}


def _content(name: str) -> bytes:
    if name == "-":
        raw = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        with Path(name).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise FormatError("the file", f"it is larger than {MOST_BYTES >> 30} GiB", hint="give a part of it")
    return raw

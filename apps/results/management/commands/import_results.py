"""Import old results from files and folders of this machine."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import User
from apps.documents import read_json
from apps.results import services
from apps.results.imports.understand import Understood
from apps.results.models import Import
from common.errors import ProvingError

CHOICES = ("name", "question", "host", "metric", "delta", "pattern")


class Command(BaseCommand):
    help = "Import outputs of pgbench, fio and other tools, tables of figures, or zips of them, as a campaign."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, zips, or one folder")
        parser.add_argument("--by", required=True, metavar="USER", help="the importing user: an operator")
        parser.add_argument("--campaign", dest="name", help="name of the campaign")
        parser.add_argument("--question", help="the question that the results answer")
        parser.add_argument("--host", help="the host of the measurements")
        parser.add_argument("--metric", help="the figure to compare")
        parser.add_argument("--delta", type=float, help="the margin as a fraction; default: 0.02")
        parser.add_argument("--pattern", help="pattern of levels in file names, such as {policy}-{n}.out")
        parser.add_argument(
            "--mapping",
            type=Path,
            help="all of these options, and columns, as a JSON file; see docs/guides/importing.md",
        )
        parser.add_argument("--look", action="store_true", help="only show how the files are understood")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._import(options)
        except (ProvingError, OSError, ValueError, User.DoesNotExist) as error:
            raise CommandError(str(error)) from error

    def _import(self, options: dict[str, Any]) -> None:
        by = User.objects.get(username=options["by"])
        import_row, new = services.upload(_uploads(options["paths"]), by=by)
        if import_row.campaign_id:
            self.stdout.write(f"already imported: campaign {import_row.campaign_id}. Nothing was changed.")
            return
        services.store_mapping(import_row, _mapping(options), by=by)
        self._tell(services.preview(import_row))
        if options["look"]:
            self._forget(import_row, new, by)
            return
        self.stdout.write(f"campaign {services.commit(import_row, by=by).pk}")

    def _tell(self, understood: Understood) -> None:
        for note in understood.notes:
            self.stderr.write(
                f"{note.severity}: {note.place}: {note.message}" + (f" ({note.hint})" if note.hint else "")
            )
        for run in understood.runs:
            self.stdout.write(
                f"{run.sources}: {', '.join(run.cell.values())}, repetition {run.block + 1}, {run.outcome}"
            )

    def _forget(self, import_row: Import, new: bool, by: User) -> None:
        if new:
            services.discard(import_row, by=by)


def _mapping(options: dict[str, Any]) -> dict[str, Any]:
    mapping = read_json(options["mapping"].read_text()) if options["mapping"] else {}
    return {**mapping, **{name: options[name] for name in CHOICES if options[name] is not None}}


def _uploads(paths: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield files, and all files below folders."""
    for path in paths:
        if path.is_dir():
            below = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
            yield from ((file.relative_to(path).as_posix(), file.read_bytes()) for file in below)
        else:
            yield path.name, path.read_bytes()

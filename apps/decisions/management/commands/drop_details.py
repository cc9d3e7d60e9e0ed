"""manage.py drop_details: drop event logs and series of old runs. Measurements and everything else remain."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.decisions import periodic
from apps.results.store import details


class Command(BaseCommand):
    help = "Drop event logs and series of old runs, except those on which a decision rests. The results are kept."

    def add_arguments(self, parser: CommandParser) -> None:
        default = settings.RETAIN_DETAILS_DAYS
        parser.add_argument("--days", type=int, default=default, help="default: PROVING_RETAIN_DETAILS_DAYS")
        parser.add_argument("--dry-run", action="store_true", help="show what would be dropped, without writing")

    def handle(self, *, days: int, dry_run: bool, **_: Any) -> None:
        if days < 1:
            raise CommandError("--days: at least 1; PROVING_RETAIN_DETAILS_DAYS is not set, so everything is kept")
        months = details.old_months(days, periodic.decided())
        if not dry_run:
            details.drop_details(days, periodic.decided())
        for each in months:
            done = "would be dropped" if dry_run else "dropped"
            result = f"not dropped: {each.obstacle}" if each.obstacle else f"details of {each.runs} runs {done}"
            self.stdout.write(f"{each.month:%Y-%m}: {result}")
        if not months:
            self.stdout.write(f"no month ended more than {days} days ago")

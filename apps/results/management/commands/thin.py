"""manage.py thin: thin the series of old runs. Measurements and everything else remain."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.results.store import retention


class Command(BaseCommand):
    help = "Thin the time series of old runs. Measurements, analyses and raw outputs are kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, default=settings.RETAIN_DAYS, help="default: PROVING_RETAIN_DAYS")
        parser.add_argument("--step", type=float, default=settings.RETAIN_STEP_S, help="seconds per remaining sample")
        parser.add_argument("--dry-run", action="store_true", help="show what would change, without writing")

    def handle(self, *, days: int, step: float, dry_run: bool, **_: Any) -> None:
        if days < 1:
            raise CommandError("--days: at least 1; PROVING_RETAIN_DAYS is not set, so everything is kept")
        if step <= 0:
            raise CommandError(f"--step: {step:g} is not above 0")
        thinned = retention.thin(days, step, dry_run=dry_run)
        done = "would be thinned" if dry_run else "thinned"
        self.stdout.write(
            f"{thinned.series} series {done}: {thinned.samples_before} samples to {thinned.samples_after}, "
            f"{thinned.bytes_before / 1e6:.1f} MB to {thinned.bytes_after / 1e6:.1f} MB"
        )

"""Do the work of the beat and the workers in this process, without a broker."""

from __future__ import annotations

import time
from typing import Any

from celery import current_app
from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from apps.campaigns.models import Campaign, Run

HOURLY_S = 3600


class Command(BaseCommand):
    help = "Do all periodic work once: due runs, results, hosts, decisions, notifications and clean-up."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--until-done", action="store_true", help="continue until no campaign is running")

    def handle(self, *args: Any, **options: Any) -> None:
        current_app.loader.import_default_modules()
        self.next_hourly = time.monotonic()
        self.once()
        while options["until_done"] and Campaign.objects.filter(state=Campaign.State.RUNNING).exists():
            if not self.once():
                time.sleep(0.5)

    def once(self) -> bool:
        """Do all periodic work in its order, hourly work at most once an hour. Returns whether runs were due."""
        has_runs, now = Run.objects.due(timezone.now()).exists(), time.monotonic()
        with_hourly = now >= self.next_hourly
        for work in current_app.conf.beat_schedule.values():
            if work["schedule"] < HOURLY_S or with_hourly:
                current_app.tasks[work["task"]].apply(throw=True)
        if with_hourly:
            self.next_hourly = now + HOURLY_S
        return has_runs

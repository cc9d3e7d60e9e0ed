"""Do what the beat and the workers do, here and now, without a broker."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db.models import Q
from django.utils import timezone

from apps.accounts.notices import notify
from apps.accounts.operation import upkeep as accounts
from apps.campaigns.execution import dispatch, queue
from apps.campaigns.models import Campaign, Run
from apps.decisions import upkeep
from apps.hosts import contact
from apps.hosts.models import Host
from apps.results import queries
from apps.results.answers import looks
from apps.results.store import fold, ingest


class Command(BaseCommand):
    help = "Work on every run that is due, read results, check and release hosts, tend decisions, notify, forget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--until-done", action="store_true", help="go on until no campaign is running")

    def handle(self, *args: Any, **options: Any) -> None:
        accounts.forget()
        self.once()
        while options["until_done"] and Campaign.objects.filter(state=Campaign.State.RUNNING).exists():
            if not self.once():
                time.sleep(0.5)

    def once(self) -> int:
        """How many runs were due."""
        unheard = contact.claim_checks(timezone.now())
        for host in Host.objects.filter(Q(pk__in=unheard) | Q(check_requested_at__isnull=False)):
            contact.check_host(host)
        for host in Host.objects.exclude(release_requested_at=None):
            contact.release_host(host)
        queue.arm_idle_hosts()
        due = list(Run.objects.due(timezone.now()))
        for run in due:
            dispatch.tick(run)
        for run in queries.to_fold():
            fold.fold(run, leave=fold.TAIL)
        for run in queries.to_ingest():
            ingest.ingest(run)
        looks.look_due()
        upkeep.tend()
        for channel_id in notify.channels_due(timezone.now()):
            notify.deliver(channel_id)
        return len(due)

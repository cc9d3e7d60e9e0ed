"""Evaluate samples of runs again: those evaluated by an older release, or of all runs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from agents.collectors.per_transaction import PER_TRANSACTION
from agents.workloads import RATES
from apps.campaigns.design import steps
from apps.campaigns.models import Run
from apps.results.models import CachedAnswer, Measurement, Series, StepMeans, StepStability
from apps.results.runs import stability
from apps.results.runs.step_means import TRANSACTIONS, per_transaction, step_means
from common.wording import counted


class Command(BaseCommand):
    help = "Compute warm-up, trend, stalls, collector means and figures per transaction for runs of an older release."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="recompute them for every run")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.filter(outcome=Run.Outcome.OK, ingested_at__isnull=False, series__source__in=RATES)
        thinned = Series.objects.exclude(thinned_s=None).values("run")
        runs = runs.exclude(pk__in=thinned)  # its samples were thinned; the findings remain
        runs = runs if options["all"] else runs.filter(step_stabilities=None)
        keys = list(runs.order_by().values_list("pk", flat=True).distinct())
        for key in keys:
            self._judge(Run.objects.select_related("campaign").get(pk=key))
        # Cached answers of a campaign are keyed by its runs, which did not change.
        CachedAnswer.objects.all().delete()
        self.stdout.write(f"{counted(len(keys), 'run')} processed")

    @transaction.atomic
    def _judge(self, run: Run) -> None:
        run.step_stabilities.all().delete()
        StepStability.objects.bulk_create(stability.stability_findings(run))
        transactions = dict(run.measurements.filter(name=TRANSACTIONS).values_list("step", "value"))
        run.measurements.filter(name__in=PER_TRANSACTION).delete()
        run.step_means.all().delete()
        means_of_steps = (step_means(run, step["name"]) for step in steps.measured(run.spec["steps"]))
        for means in StepMeans.objects.bulk_create(each for each in means_of_steps if each):
            Measurement.objects.bulk_create(per_transaction(means, transactions.get(means.step, 0.0)))

"""Searches whose campaigns end at once, with figures from a function of the values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Campaign, Run
from apps.searches import rounds
from apps.searches.models import Round, Search
from tests.rows.factories import end_run, make_search

BEST_KB = 64 * 1024
Tps = Callable[[dict[str, Any]], float | None]


def planted(values: dict[str, Any]) -> float | None:
    """Best at 64 MB; the default, without values, is 4 octaves away. Half of that with jit."""
    octaves = abs(math.log2(values.get("work_mem", BEST_KB / 16) / BEST_KB))
    return 1000.0 * 0.9**octaves * (0.5 if values.get("jit") == "on" else 1.0)


def advance(search: Search) -> Search:
    """Do one step of a worker."""
    rounds.advance(search.pk, timezone.now())
    search.refresh_from_db()
    return search


def end_round(
    search: Search,
    tps: Tps = planted,
    noise: float = 0.01,
    wall_s: float = 10.0,
    latency_ms: Callable[[dict[str, Any]], float] | None = None,
) -> Campaign:
    """End every run of the open round: failed if `tps` is None, else with that figure and a little noise."""
    campaign = search.rounds.get(state=Round.State.RUNNING).campaign
    values = {trial.label: trial.values for trial in search.trials.all()} | {"default": {}}
    for run in campaign.runs.order_by("position"):
        figure = tps(values[run.cell["values"]])
        if figure is None:
            end_run(run, Run.Outcome.FAILED)
        else:
            own = values[run.cell["values"]]
            latency = latency_ms(own) * (1 + noise * math.sin(5 * run.position + run.block)) if latency_ms else None
            tps_of_run = figure * (1 + noise * math.sin(7 * run.position + run.block))
            end_run(run, wall_s=wall_s, tps=tps_of_run, latency_ms=latency)
    campaign_end.close_campaign(campaign.pk)
    campaign.refresh_from_db()
    return campaign


def finish(search: Search, tps: Tps = planted) -> Search:
    """Continue until it no longer runs."""
    while advance(search).state == Search.State.RUNNING:
        end_round(search, tps)
    return search


def finished(campaign: Campaign, by: User) -> Search:
    """A finished search with failed trials and a confirmation."""
    return finish(make_search(campaign, by, name="Tune memory", budget_runs=34, blocks=1), _failing)


def _failing(values: dict[str, Any]) -> float | None:
    return None if values.get("work_mem", 0) > 512 * 1024 else planted(values)

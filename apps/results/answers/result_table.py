"""The results of a campaign from its runs and their figures. Pure: the runs need not be in a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import stats
from agents.collectors.per_transaction import CPU
from apps.campaigns.design import orders, steps
from apps.campaigns.design.factors import varied_names
from apps.campaigns.models import Campaign, Run
from apps.results.answers import interim_analyses
from apps.results.answers.headline import headline, no_comparison_reason
from apps.results.answers.hosts import disagreement
from apps.results.answers.level_rows import (
    Comparing,
    Values,
    analysed_pair,
    level_rows,
    measured_runs,
    points_by_level,
    with_cpu_time,
    with_failed_runs,
    with_failures,
    with_interim_analysis,
    with_modes,
)
from apps.results.answers.observations import observations_of_hosts, starts_of
from apps.results.answers.table import CampaignTable, LevelRow
from apps.results.models import InterimAnalysis
from common.verdicts import BETTER_FAILING
from stats.model import NO_SPREAD, POINTS_ONLY_BELOW

# Fewer runs cannot show a trend.
DRIFT_FROM = 6


def result_table(
    campaign: Campaign,
    chosen: steps.Metric,
    labels: Sequence[str],
    runs: Sequence[Run],
    values: Values,
    newest: InterimAnalysis | None,
) -> CampaignTable:
    """Return the table without definition and overheads. `labels`: the combinations of levels in the order of the
    design. `values`: figures of the metric's step. `newest`: the newest interim analysis."""
    hosts = {run.host_id: run.host.name for run in runs}
    comparing = Comparing(
        labels[0],
        stats.Metric(campaign.compared, chosen.unit, chosen.better),  # type: ignore[arg-type]
        campaign.delta,
        interim_analyses.unplanned(campaign, newest),
        identical_hosts=campaign.placement == Campaign.Placement.SPREAD,
        caveat=orders.not_included(campaign.order, campaign.factors, campaign.target, campaign.reboot),
        starts=starts_of(campaign),
    )
    figures = values.get(chosen.name, {})
    measured = points_by_level(labels, runs, figures)
    of_host = observations_of_hosts(measured_runs(measured))
    observations = comparing.observations(measured)
    level_table = stats.level_table(observations) if observations else None
    latencies, compared = values.get("latency_avg", {}), comparing.with_baseline(observations)
    levels = level_rows(campaign, runs, measured, level_table, compared, figures, latencies)
    levels = with_failures(with_interim_analysis(levels, comparing, newest), comparing, values)
    levels = with_failed_runs(levels, comparing)
    levels = with_cpu_time(levels, comparing, measured, values.get(CPU, {}))
    modes = stats.two_modes(observations)
    levels = with_modes(levels, observations, modes) if modes else levels
    best = headline(levels, chosen.better)
    sequential = None if best and best.verdict == BETTER_FAILING else analysed_pair(comparing, newest)
    analysis_sentence = sequential["sentence"] if sequential else ""
    host_answers = [
        comparing.on_host(key, name, of_host.get(name, [])) for key, name in hosts.items() if len(hosts) > 1
    ]
    return CampaignTable(
        metric=comparing.metric.name,
        unit=chosen.unit,
        better=chosen.better,
        definition="",
        factor_names=varied_names(campaign.factors),
        delta=campaign.delta,
        baseline=comparing.baseline,
        levels=levels,
        sentence=analysis_sentence or _sentence(levels, comparing.baseline, chosen.better),
        method=_method(level_table, list(of_host.values()), comparing.identical_hosts, levels) if level_table else "",
        drift=_order_trend(observations, campaign.delta) if len(hosts) == 1 else None,
        interim_analysis=newest.as_dict() if newest else None,
        hosts=host_answers,
        disagreement=disagreement(host_answers),
        noise_floor_percent=_noise_floor(level_table, compared, comparing.starts),
        identical_hosts=comparing.identical_hosts,
        unplanned_analysis=comparing.unplanned,
        modes=modes.as_dict() if modes else None,
        starts={label: list(path) for label, path in comparing.starts.items()},
        within_blocks=level_table is not None and level_table.blocked,
    )


def _noise_floor(
    level_table: stats.LevelTable | None, compared: Mapping[str, stats.Comparison], starts: stats.Starts
) -> float | None:
    """The noise floor for the number of runs of the level with the fewest; by ranks, or if levels share starts, that of
    the widest interval."""
    names = [level.level for level in level_table.levels] if level_table else []
    share = bool(names and stats.shared_starts(names, starts))
    own = [one.interval for one in compared.values() if one.interval and (share or one.by_ranks)]
    if own:
        return max(map(stats.half_width_percent, own)) or None
    if level_table is None or level_table.s is None or level_table.s < NO_SPREAD:
        return None
    n = min(level.n for level in level_table.levels)
    enough = n >= POINTS_ONLY_BELOW and len(level_table.levels) > 1
    return stats.noise_floor_percent(level_table.s, n, level_table.df) if enough else None


def _method(
    level_table: stats.LevelTable, hosts: Sequence[Sequence[stats.Observation]], identical: bool, levels: list[LevelRow]
) -> str:
    by_ranks = next((level.method for level in levels if "by ranks" in level.method), "")
    method = f"{level_table.method}; compared by {by_ranks}" if by_ranks else level_table.method
    if len(hosts) < 2:
        return method
    every = [row for rows in hosts for row in rows]
    used = [row for rows in hosts for row in stats.whole_blocks(rows)] if not identical else stats.whole_blocks(every)
    left_out = len(every) - len(used)
    unit = "" if identical else f"; one mean for each of {len(hosts)} hosts"
    return method + unit + (f"; {left_out} left out because their block lacks a level on its host" if left_out else "")


def _sentence(levels: list[LevelRow], baseline: str, better: str) -> str:
    """Return the verdict that answers the question, or why there is none."""
    level = headline(levels, better)
    return level.sentence if level else f"No comparison: {no_comparison_reason(levels, baseline)}."


def _order_trend(rows: list[stats.Observation], delta: float) -> dict[str, Any] | None:
    """Return the trend over the order of the runs; None if there are too few runs for a test."""
    if len(rows) < DRIFT_FROM:
        return None
    trend = stats.order_trend(rows, delta)
    return asdict(trend) | {"sentence": trend.sentence()}

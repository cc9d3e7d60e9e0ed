"""How far the data carry: noise, the minimum detectable effect, runs needed, and drift over time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import stats
from apps.campaigns.design.factors import text_of
from apps.campaigns.models import Campaign
from apps.results.answers.judgements.judged_campaign import NAMED, JudgedCampaign
from apps.results.answers.result_table import DRIFT_FROM
from apps.results.answers.sentences import Judgement
from apps.results.answers.table import LevelRow
from common.verdicts import INCONCLUSIVE, Tone
from common.wording import counted, percent, signed, unsigned

WEEK_H = 168


def noise(judged: JudgedCampaign) -> Iterator[Judgement]:
    """The noise floor: measured if two levels are identical, else computed from the run-to-run variation."""
    floor, delta = judged.table.noise_floor_percent, judged.campaign.delta
    pairs = _alike(judged)
    for a, b in pairs:
        yield _observed_noise(judged.adjusted(stats.compare_levels(judged.rows, a, b, judged.metric, delta)), delta)
    if floor is None or pairs:
        return
    table = judged.table
    compared = [level.ok for level in table.levels if level.relative_low is not None or level.label == table.baseline]
    runs = counted(min(compared), "run")
    yield _floor(f"Noise floor: {unsigned(floor)} % between two identical levels of {runs} each (95 %)", floor, delta)


def _floor(sentence: str, floor: float, delta: float) -> Judgement:
    above = floor > 100 * delta
    tail = f"; effects of {100 * delta:g} % can hide in it" if above else ""
    return Judgement("noise", f"{sentence}{tail}.", "warning" if above else "note", {"noise_floor_percent": floor})


def _observed_noise(comparison: stats.Comparison, delta: float) -> Judgement:
    size = f"{comparison.a} and {comparison.b} are identical and differ by {percent(comparison.ratio_percent)}"
    if comparison.interval is None:
        sentence = f"{size}; too few runs to estimate the noise."
        return Judgement("noise", sentence, "unknown", {"ratio_percent": comparison.ratio_percent})
    low, high = comparison.interval
    floor, with_interval = (
        stats.half_width_percent(comparison.interval),
        f"{size} (95 % CI {signed(low)} to {signed(high)} %)",
    )
    if low * high > 0:
        sentence = (
            f"{with_interval}, more than noise explains. This happens by chance in 1 of 20 campaigns; check the test."
        )
        return Judgement("noise", sentence, "warning", {"noise_floor_percent": floor, "interval": comparison.interval})
    return _floor(f"{with_interval}: noise floor {unsigned(floor)} %", floor, delta)


def _alike(judged: JudgedCampaign) -> list[tuple[str, str]]:
    """Levels that set the same. What was imported says of none what it set."""
    if judged.campaign.kind == Campaign.Kind.IMPORTED:
        return []
    measured = {row.level for row in judged.rows}
    groups: dict[str, list[str]] = {}
    for cell in judged.design:
        label = text_of(cell)
        if label in measured:
            changes = {path: value for level in cell.values() for path, value in level.set.items()}
            groups.setdefault(repr(sorted(changes.items(), key=lambda each: each[0])), []).append(label)
    return [pair for labels in groups.values() for pair in combinations(labels, 2)][:NAMED]


def sensitivity(judged: JudgedCampaign) -> Iterator[Judgement]:
    detectable = [level.mde_percent for level in judged.others if level.mde_percent is not None]
    if not any(detectable):
        return  # without variation between runs any difference is detected
    delta, most = 100 * judged.campaign.delta, max(detectable)
    place = "within" if most <= delta else "above"
    interest = f"{place} the minimum effect of interest ({delta:g} %)"
    sentence = f"Minimum detectable effect: {unsigned(most)} % (80 % power), {interest}."
    yield Judgement("sensitivity", sentence, "warning" if most > delta else "note", {"mde_percent": most})


def needed(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Of each comparison that detects nothing: how many runs would, and how long these take here."""
    counts = {level.label: level.ok for level in judged.table.levels}
    for level in judged.others:
        if level.verdict == INCONCLUSIVE and level.runs_needed is not None:
            yield _runs_needed(judged, level, min(level.ok, counts[judged.table.baseline]), level.runs_needed)


def _runs_needed(judged: JudgedCampaign, level: LevelRow, have: int, need: int) -> Judgement:
    effect = f"{100 * judged.campaign.delta:g} %"
    begin = f"Runs needed to detect {effect} between {level.name} and the baseline: {need:,} of each"
    figures: dict[str, Any] = {"level": level.label, "runs": have, "runs_needed": need, "hours": None}
    if need <= have:
        return Judgement("runs needed", f"{begin}, and {have} exist (80 % power).", "unknown", figures)
    if judged.run_s:
        figures["hours"] = 2 * (need - have) * judged.run_s / 3600
    if figures["hours"] and figures["hours"] > WEEK_H:
        sentence = f"{level.name}: an effect of {effect} is not resolvable on this host within a week."
        return Judgement("runs needed", sentence, "unknown", figures)
    takes = f", about {_hours(figures['hours'])} more" if figures["hours"] else ""
    sentence = f"{begin}{takes}. Plan them as a new campaign, or use a stop rule."
    return Judgement("runs needed", sentence, "unknown", figures)


def _hours(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 0.1 else "0.1 h"


def order_trend(judged: JudgedCampaign) -> Iterator[Judgement]:
    drift_test = judged.table.drift
    if drift_test:
        tone: Tone = "warning" if drift_test["banner"] else "note" if drift_test["negligible"] else "unknown"
        yield Judgement("drift", drift_test["sentence"], tone, drift_test)
    elif len(judged.table.hosts) > 1:
        yield Judgement("drift", "Drift is tested for each host separately.", "unknown")
    else:
        sentence = f"Not enough runs to test for drift: at least {DRIFT_FROM} are needed."
        yield Judgement("drift", sentence, "unknown")

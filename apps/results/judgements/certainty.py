"""How far the data carry: noise, what could be found, what it would take, and whether time played a part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from apps.campaigns.factors import text_of
from apps.campaigns.models import Campaign
from apps.results import queries, stats
from apps.results.judgements.asked import NAMED, Asked
from apps.results.queries import LevelRow
from apps.results.sentences import Judgement, Tone
from apps.results.stats.model import percent


def noise(asked: Asked) -> Iterator[Judgement]:
    """What runs of the same thing differ by: seen where two levels are the same, else reckoned from the spread."""
    floor, delta = asked.table.noise_floor_percent, asked.campaign.delta
    pairs = _alike(asked)
    for a, b in pairs:
        yield _seen(stats.compare_levels(asked.rows, a, b, asked.metric, delta), delta)
    if floor is None or pairs:
        return
    n = min(level.ok for level in asked.table.levels if level.ok)
    sentence = f"Noise floor: with {n} runs of each, two levels that are the same differ by up to {floor:.2f} % in 95 %"
    yield _floor(f"{sentence} of such campaigns", floor, delta)


def _floor(sentence: str, floor: float, delta: float) -> Judgement:
    above = floor > 100 * delta
    tail = f", more than the margin of {100 * delta:g} %: noise hides what matters" if above else ""
    return Judgement("noise", f"{sentence}{tail}.", "warning" if above else "note", {"noise_floor_percent": floor})


def _seen(found: stats.Comparison, delta: float) -> Judgement:
    size = f"{found.a} and {found.b} set the same, and differ by {percent(found.ratio_percent)}"
    if found.interval is None:
        sentence = f"{size}: with so few runs nobody knows how much of that is noise."
        return Judgement("noise", sentence, "unknown", {"ratio_percent": found.ratio_percent})
    low, high = found.interval
    floor, told = stats.half_width_percent(found.interval), f"{size} [{low:.2f}, {high:.2f}]"
    if low * high > 0:
        sentence = f"{told}: more than noise. In one of twenty campaigns that is chance, else a fault of the test."
        return Judgement("noise", sentence, "warning", {"noise_floor_percent": floor, "interval": found.interval})
    return _floor(f"{told}: noise alone reaches {floor:.2f} %", floor, delta)


def _alike(asked: Asked) -> list[tuple[str, str]]:
    """Levels that set the same. What was imported says of none what it set."""
    if asked.campaign.kind == Campaign.Kind.IMPORTED:
        return []
    measured = {row.level for row in asked.rows}
    groups: dict[str, list[str]] = {}
    for cell in asked.design:
        label = text_of(cell)
        if label in measured:
            changes = {path: value for level in cell.values() for path, value in level.set.items()}
            groups.setdefault(repr(sorted(changes.items(), key=lambda each: each[0])), []).append(label)
    return [pair for labels in groups.values() for pair in combinations(labels, 2)][:NAMED]


def sensitivity(asked: Asked) -> Iterator[Judgement]:
    told = [level.mde_percent for level in asked.others if level.mde_percent is not None]
    if not told:
        return
    delta, most = 100 * asked.campaign.delta, max(told)
    enough = f"within the margin of {delta:g} %" if most <= delta else f"though {delta:g} % is what matters"
    sentence = (
        f"With this spread so many runs find a difference from {most:.2f} % up in four of five campaigns, {enough}."
    )
    yield Judgement("sensitivity", sentence, "warning" if most > delta else "note", {"mde_percent": most})


def needed(asked: Asked) -> Iterator[Judgement]:
    """Of each comparison that detects nothing: how many runs would, and how long these take here."""
    counts = {level.label: level.ok for level in asked.table.levels}
    for level in asked.others:
        if level.verdict == "undetectable" and level.runs_needed is not None:
            yield _runs_needed(asked, level, min(level.ok, counts[asked.table.baseline]), level.runs_needed)


def _runs_needed(asked: Asked, level: LevelRow, have: int, need: int) -> Judgement:
    begin = f"To find a difference of {100 * asked.campaign.delta:g} % between {level.label} and {asked.table.baseline}"
    figures: dict[str, Any] = {"level": level.label, "runs": have, "runs_needed": need, "hours": None}
    if need <= have:
        tail = f"{need} runs of each do in four of five campaigns, and there are {have}: this may be the fifth."
        return Judgement("runs needed", f"{begin}, {tail}", "unknown", figures)
    if asked.run_s:
        figures["hours"] = 2 * (need - have) * asked.run_s / 3600
    takes = f", about {_hours(figures['hours'])}" if figures["hours"] else ""
    sentence = (
        f"{begin} takes {need} runs of each, {need - have} more{takes}. Plan them afresh, or with a stop rule: who "
        "adds runs until it is significant finds what is not there."
    )
    return Judgement("runs needed", sentence, "unknown", figures)


def _hours(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 0.1 else "0.1 h at most"


def drift(asked: Asked) -> Iterator[Judgement]:
    found = asked.table.drift
    if found:
        tone: Tone = "warning" if found["banner"] else "note" if found["negligible"] else "unknown"
        yield Judgement("drift", found["sentence"], tone, found)
    elif len(asked.table.hosts) > 1:
        yield Judgement("drift", "Whether the figures drifted is told host by host.", "unknown")
    else:
        sentence = f"Too few runs to tell whether the figures drifted with time: {queries.DRIFT_FROM} are the least."
        yield Judgement("drift", sentence, "unknown")

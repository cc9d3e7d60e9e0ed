"""Campaigns on several hosts: levels are compared on each host, then by the means of all hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from uuid import UUID

import stats
from apps.campaigns.models import Run
from common.verdicts import verdict
from common.wording import percent


@dataclass(frozen=True)
class HostLevel:
    """A level against the baseline on one host, in percent; None if it has too few runs."""

    label: str
    ok: int
    relative_percent: float | None
    relative_low: float | None
    relative_high: float | None
    verdict: str
    preliminary: bool = False


@dataclass(frozen=True)
class HostAnswer:
    host: int
    name: str
    mean: float | None
    levels: list[HostLevel]


def retries_of(runs: Iterable[Run]) -> dict[UUID, int]:
    """Return run -> how often it had been run before."""
    before = {run.pk: run.retry_of_id for run in runs}
    counts: dict[UUID, int] = {}
    for run, earlier in before.items():
        count = 0
        while earlier is not None:
            count, earlier = count + 1, before.get(earlier)
        counts[run] = count
    return counts


def host_answer(
    host: int, name: str, rows: Sequence[stats.Observation], compared: Mapping[str, stats.Comparison], baseline: str
) -> HostAnswer:
    """Return the comparison of one host. `rows`: its runs. `compared`: its levels against the baseline."""
    counted = {level: sum(row.level == level for row in rows) for level in dict.fromkeys(row.level for row in rows)}
    means = {level.level: level.mean for level in stats.level_table(rows).levels} if rows else {}
    return HostAnswer(host, name, means.get(baseline), [_level(level, n, compared) for level, n in counted.items()])


def _level(label: str, ok: int, compared: Mapping[str, stats.Comparison]) -> HostLevel:
    comparison = compared.get(label)
    if comparison is None:
        return HostLevel(label, ok, None, None, None, "")
    low, high = comparison.interval or (None, None)
    return HostLevel(label, ok, comparison.ratio_percent, low, high, comparison.verdict, comparison.preliminary)


def disagreement(host_answers: Sequence[HostAnswer]) -> str:
    """Return a sentence if intervals of one level on two hosts do not overlap, else ""."""
    for one, other in combinations(host_answers, 2):
        theirs = {level.label: level for level in other.levels}
        for level in one.levels:
            against = theirs.get(level.label)
            if against and _apart(level, against):
                return _disagreement(level, one.name, against, other.name, host_answers)
    return ""


def _disagreement(
    level: HostLevel, name: str, against: HostLevel, other: str, host_answers: Sequence[HostAnswer]
) -> str:
    sizes = (
        f"{level.label} gives {percent(level.relative_percent or 0.0)} on {name} and "
        f"{percent(against.relative_percent or 0.0)} on {other} (95 % CIs do not overlap)"
    )
    every = [own for answer in host_answers for own in answer.levels if own.label == level.label]
    verdicts = [verdict(own.verdict) for own in every]
    if all(own.is_better for own in verdicts) or all(own.is_worse for own in verdicts):
        return f"The size differs between hosts: {sizes}. It is {verdicts[0].tone} on all {len(every)} hosts."
    return f"The hosts disagree: {sizes}. Read the answer of each host."


def _apart(one: HostLevel, other: HostLevel) -> bool:
    first, second = (one.relative_low, one.relative_high), (other.relative_low, other.relative_high)
    if None in first or None in second:
        return False
    return bool(first[0] > second[1] or second[0] > first[1])  # type: ignore[operator]  # neither is None

"""A campaign on several hosts: each is a block, levels are compared within it, and then over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import stats
from apps.campaigns.models import Run


@dataclass(frozen=True)
class HostLevel:
    """What a level does against the baseline on one host, in percent; None where its runs are too few."""

    label: str
    ok: int
    relative_percent: float | None
    relative_low: float | None
    relative_high: float | None
    verdict: str


@dataclass(frozen=True)
class HostAnswer:
    host: int
    name: str
    mean: float | None
    levels: list[HostLevel]


def block_numbers(runs: Iterable[Run]) -> dict[tuple[int, int], int]:
    """(host, its repetition) -> a number of its own; of one host they are its repetitions."""
    runs = list(runs)
    if len({run.host_id for run in runs}) <= 1:
        return {(run.host_id, run.block): run.block for run in runs}
    return {key: number for number, key in enumerate(sorted({(run.host_id, run.block) for run in runs}))}


def joint(rows: Sequence[stats.Observation], hosts: int) -> list[stats.Observation]:
    """What may be judged together: of several hosts whole blocks, so that no difference of hosts is one of levels."""
    return stats.whole_blocks(rows) if hosts > 1 else list(rows)


def answer(
    host: int, name: str, rows: Sequence[stats.Observation], compared: Mapping[str, stats.Comparison], baseline: str
) -> HostAnswer:
    """One host's own comparison; `rows` are its runs, `compared` its levels against the baseline."""
    counted = {level: sum(row.level == level for row in rows) for level in dict.fromkeys(row.level for row in rows)}
    means = {level.level: level.mean for level in stats.level_table(rows).levels} if rows else {}
    return HostAnswer(host, name, means.get(baseline), [_level(level, n, compared) for level, n in counted.items()])


def _level(label: str, ok: int, compared: Mapping[str, stats.Comparison]) -> HostLevel:
    found = compared.get(label)
    if found is None:
        return HostLevel(label, ok, None, None, None, "")
    low, high = found.interval or (None, None)
    return HostLevel(label, ok, found.ratio_percent, low, high, found.verdict)


def disagreement(answers: Sequence[HostAnswer]) -> str:
    """Where two hosts cannot both be right of a level: their intervals have nothing in common. "" where they can."""
    for one, other in combinations(answers, 2):
        theirs = {level.label: level for level in other.levels}
        for level in one.levels:
            against = theirs.get(level.label)
            if against and _apart(level, against):
                return (
                    f"The hosts disagree: {level.label} gives {level.relative_percent:+.2f} % on {one.name} and "
                    f"{against.relative_percent:+.2f} % on {other.name}, and their intervals have nothing in common. "
                    "What is said of all hosts together holds for none of them."
                )
    return ""


def _apart(one: HostLevel, other: HostLevel) -> bool:
    first, second = (one.relative_low, one.relative_high), (other.relative_low, other.relative_high)
    if None in first or None in second:
        return False
    return bool(first[0] > second[1] or second[0] > first[1])  # type: ignore[operator]  # neither is None

"""The answer of a campaign at a glance: verdict, best level, size with interval, certainty and next step. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from apps.results.answers.headline import headline, no_comparison_reason
from apps.results.answers.interim_analyses import RUNNING
from apps.results.answers.table import CampaignTable, LevelRow
from common.verdicts import INCONCLUSIVE, TONES, TOO_FEW_RUNS, Tone, verdict
from common.wording import counted, unsigned
from stats.model import POINTS_ONLY_BELOW, PRELIMINARY_BELOW

Step = Literal["", "wait", "retry", "extend", "repeat", "decide"]
WEEK_S = 7 * 86400.0
MOST_REPETITIONS = 1000
WIDER = "The 95 % CI is wider, because it holds however often you read it before the campaign ends."
WIDTH, PADDING = 600.0, 48.0  # room for half of a label, such as +1000 %, in the font of narrow windows


@dataclass(frozen=True)
class Bar:
    """An interval drawn on a scale: x-positions from 0 to WIDTH of zero, minimum effect, ends and estimate; `ticks`
    are (x, percent)."""

    zero: float
    margin: tuple[float, float]
    ends: tuple[float, float]
    estimate: float
    ticks: list[tuple[float, float]]

    @property
    def margin_width(self) -> float:
        return self.margin[1] - self.margin[0]


@dataclass(frozen=True)
class AnswerCard:
    """`level` is None before anything can be compared. `repetitions` and `seconds`: what the step "extend" adds
    and what a new campaign ("repeat") has."""

    word: str
    tone: Tone
    level: LevelRow | None = None
    baseline: str = ""
    bar: Bar | None = None
    badges: Sequence[str] = ()
    note: str = ""
    step: Step = ""
    repetitions: int = 0
    seconds: float = 0.0

    @property
    def css_class(self) -> str:
        return TONES[self.tone].css_class

    @property
    def icon(self) -> str:
        return verdict(self.level.verdict).icon if self.level else TONES[self.tone].icon


def answer_card(
    table: CampaignTable, *, ended: bool, retriable: int = 0, run_s: float | None = None, planned: int = 0
) -> AnswerCard:
    """The card of a campaign. `planned`: repetitions of its design; `run_s`: seconds that one of its runs takes."""
    level = headline(table.levels, table.better)
    badges = _badges(table, ended, planned * max(1, len(table.hosts)))
    if level is None:
        return _without_answer(table, badges, ended, retriable)
    bar = _bar(level, table.delta)
    shown = verdict(level.verdict)
    card = AnswerCard(shown.word.capitalize(), shown.tone, level, _name(table), bar, badges)
    return _with_step(card, level, table, ended, retriable, run_s)


def _without_answer(table: CampaignTable, badges: Sequence[str], ended: bool, retriable: int) -> AnswerCard:
    why = no_comparison_reason(table.levels, table.baseline)
    note = f"{why[0].upper()}{why[1:]}."
    if not ended:
        return AnswerCard("Waiting for results", "unknown", badges=badges, note=note, step="wait")
    return AnswerCard("No result", "warning", badges=badges, note=note, step="retry" if retriable else "")


def _name(table: CampaignTable) -> str:
    return next((level.name or level.label for level in table.levels if level.label == table.baseline), table.baseline)


def _badges(table: CampaignTable, ended: bool, planned: int) -> list[str]:
    measured = [level.ok for level in table.levels]
    least, most = min(measured, default=0), max(measured, default=0)
    runs = f"{least}" if least == most else f"{least} to {most}"
    badges = [
        f"{runs} of {counted(planned, 'run')} per level"
        if planned
        else f"{runs} {'run' if most == 1 else 'runs'} per level"
    ]
    if any(level.preliminary for level in table.levels):
        badges.insert(0, "preliminary")
    failed = sum(level.not_ok for level in table.levels)
    if failed:
        of_all = counted(failed + sum(measured), "run")
        badges.append(f"{failed} of {of_all} failed or {'was' if failed == 1 else 'were'} cancelled")
    if table.unplanned_analysis not in ("", RUNNING) and not (table.interim_analysis and table.interim_analysis["met"]):
        badges.insert(0, "unplanned analysis")
    zeros = sum(level.zeros for level in table.levels)
    if zeros:
        badges.append(f"{zeros} {'runs' if zeros > 1 else 'run'} with {table.metric} 0 left out")
    if table.interim_analysis:
        badges.append(f"interim analysis {table.interim_analysis['number']}")
    if not ended:
        badges.append("not ended")
    return badges


def _with_step(
    card: AnswerCard, level: LevelRow, table: CampaignTable, ended: bool, retriable: int, run_s: float | None
) -> AnswerCard:
    if not ended:
        return replace(card, step="wait", note=WIDER if _is_wider(level, table) else "")
    baseline = next(each.ok for each in table.levels if each.label == table.baseline)
    have = min(level.ok, baseline)
    if retriable and have < PRELIMINARY_BELOW:
        return replace(card, step="retry")
    if have < PRELIMINARY_BELOW:
        more = PRELIMINARY_BELOW - have
        note = "A comparison needs 3 runs of each level." if have < POINTS_ONLY_BELOW else ""
        return replace(card, note=note, step="extend", repetitions=more, seconds=_seconds(table, more, run_s))
    if level.verdict == TOO_FEW_RUNS:
        note = f"A verdict over all hosts needs {POINTS_ONLY_BELOW} hosts. Each host has its own verdict below."
        return replace(card, word="Too few hosts", note=note)
    if level.preliminary:
        return replace(card, note=_why_preliminary(table))
    if level.verdict == INCONCLUSIVE:
        return _inconclusive(card, level, table, have, run_s)
    return replace(card, step="decide", note=_others(table))


def _is_wider(level: LevelRow, table: CampaignTable) -> bool:
    """Whether the interval of a level holds at any number of runs; that of a stopping rule has its own adjustment."""
    analysed = (table.interim_analysis or {}).get("comparison") or {}
    if (analysed.get("a"), analysed.get("b")) == (table.baseline, level.label):
        return False
    return table.unplanned_analysis == RUNNING and level.relative_low is not None


def _why_preliminary(table: CampaignTable) -> str:
    """Why a verdict is preliminary although there are enough runs."""
    if len(table.hosts) > 1 and not table.identical_hosts:
        return f"A verdict over all hosts is preliminary with fewer than {PRELIMINARY_BELOW} hosts."
    return f"Fewer than {PRELIMINARY_BELOW} blocks have a run of both levels. Repeat the campaign."


def _others(table: CampaignTable) -> str:
    """What several levels have in common, where one verdict does not say it."""
    verdicts = [verdict(level.verdict) for level in table.levels if level.verdict]
    if len(verdicts) > 1 and all(each.is_worse for each in verdicts):
        return "Every other level is worse: the baseline is best."
    failing = next((level.failures for level in table.levels if level.failures), "")
    if failing:
        return failing
    unlike = [each for each in verdicts if not each.is_better]
    if len(verdicts) > 1 and 0 < len(unlike) < len(verdicts):
        return f"{len(verdicts) - len(unlike)} of {len(verdicts)} levels are better than the baseline."
    return ""


def _inconclusive(
    card: AnswerCard, level: LevelRow, table: CampaignTable, have: int, run_s: float | None
) -> AnswerCard:
    """A new campaign of as many runs as are needed, if they fit into a week: adding runs here would inflate false
    positives."""
    effect = f"{100 * table.delta:g} %"
    detectable = (
        "" if level.mde_percent is None else f"Minimum detectable effect: {unsigned(level.mde_percent)} % (80 % power)."
    )
    detectable = " ".join(filter(None, [level.cpu, detectable]))
    if level.runs_needed is None or level.runs_needed <= have:
        return replace(card, note=detectable, step="decide")
    seconds = _seconds(table, level.runs_needed, run_s)
    if level.runs_needed > MOST_REPETITIONS or seconds > WEEK_S:
        return replace(card, note=f"An effect of {effect} is not resolvable on this host within a week. {detectable}")
    return replace(card, note=detectable, step="repeat", repetitions=level.runs_needed, seconds=seconds)


def _seconds(table: CampaignTable, repetitions: int, run_s: float | None) -> float:
    return repetitions * len(table.levels) * (run_s or 0.0)


def _bar(level: LevelRow, delta: float) -> Bar | None:
    """None without an interval."""
    if level.relative_low is None or level.relative_high is None or level.relative_percent is None:
        return None
    margin = 100 * delta
    low, high = min(level.relative_low, -1.5 * margin), max(level.relative_high, 1.5 * margin)
    if not all(map(math.isfinite, (low, high))) or high <= low:
        return None

    def at(percent: float) -> float:
        return round(PADDING + (WIDTH - 2 * PADDING) * (percent - low) / (high - low), 1)

    return Bar(
        at(0.0),
        (at(-margin), at(margin)),
        (at(level.relative_low), at(level.relative_high)),
        at(level.relative_percent),
        [(at(tick), tick) for tick in _ticks(low, high)],
    )


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between the ends."""
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    return [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]

"""Find what changed with each level of a campaign, or with each side of a comparison, against the first. Only reads
(SELECT)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import stats
from apps.results.answers.changes import phrases
from apps.results.answers.changes.figures import GROUPS, WatchedFigure
from apps.results.answers.changes.mechanisms import Settings, mechanisms
from apps.results.answers.changes.observed import Observed, PlacedRun, observed
from apps.results.answers.changes.plans import PlanChange, plan_changes
from apps.results.answers.sentences import Judgement
from apps.results.models import StepMeans
from stats.comparison.associations import Association
from stats.model import POINTS_ONLY_BELOW

OPEN = 5
# A scan of more runs takes too long for a page.
MOST_RUNS = 2000
TOO_FEW = f"Too few runs to compare other figures: a comparison needs {POINTS_ONLY_BELOW} of each level."
FEW_BLOCKS = (
    f"Too few blocks to compare other figures: a comparison needs {POINTS_ONLY_BELOW} with runs of both levels."
)
TOO_MANY = f"Not compared: more than {MOST_RUNS:,} runs."


@dataclass(frozen=True)
class FigureChange:
    """One figure that differs from the baseline.

    `before` and `after`: means, in `unit`. `change` with its interval is in percent if it `is_ratio`, else in `unit`
    (points of "%"). `effect`: in standard deviations of one run."""

    figure: str
    title: str
    group: str
    unit: str
    before: float
    after: float
    is_ratio: bool
    change: float
    low: float
    high: float
    effect: float | None
    q: float
    before_text: str
    after_text: str
    change_text: str
    interval_text: str


@dataclass(frozen=True)
class LevelChanges:
    """The changes of one level against the baseline, in `compared` figures. `changes`: the figures that differ,
    largest effects first. `mechanisms`: sentences on known mechanisms whose figures moved as expected."""

    label: str
    name: str
    heading: str
    sentence: str
    compared: int
    changes: list[FigureChange] = field(default_factory=list)
    mechanisms: list[str] = field(default_factory=list)

    @property
    def shown(self) -> list[FigureChange]:
        """The rows that a page shows first."""
        return self.changes[:OPEN]

    @property
    def folded(self) -> list[FigureChange]:
        """The other rows, by group."""
        return sorted(self.changes[OPEN:], key=lambda one: GROUPS.index(one.group))


@dataclass(frozen=True)
class Changes:
    """`baseline`: the heading of its column. `note`: why nothing is compared; "" otherwise. `plans`: levels for
    which the planner chose another plan."""

    baseline: str
    levels: list[LevelChanges] = field(default_factory=list)
    note: str = ""
    plans: list[PlanChange] = field(default_factory=list)

    def judgements(self) -> list[Judgement]:
        """Return the sentences as findings, with the rows as their figures."""
        findings: list[Judgement] = []
        for level in self.levels:
            rows = [
                {name: value for name, value in vars(change).items() if "_text" not in name} for change in level.changes
            ]
            figures: dict[str, Any] = {"level": level.label, "compared": level.compared, "changes": rows}
            findings += [
                Judgement("mechanism", mechanism, "note", {"level": level.label}) for mechanism in level.mechanisms
            ]
            findings.append(Judgement("what changed", level.sentence, "note", figures))
        for plan in self.plans:
            figures = {"level": plan.level, "step": plan.step, "before": plan.before, "after": plan.after}
            findings.append(Judgement("plans", plan.sentence, "note", figures))
        return findings

    def first(self, label: str = "") -> list[LevelChanges]:
        """Return the levels, starting with the one of this label."""
        return sorted(self.levels, key=lambda level: level.label != label)


@dataclass(frozen=True)
class ChangedLevel:
    """A level or side: its key, its name in a sentence and above a column, its settings, and how the metric changed
    with it."""

    label: str
    name: str
    heading: str
    settings: Settings
    metric: str = ""


def changes(
    steps: Sequence[Mapping[str, Any]],
    step: str,
    places: Sequence[PlacedRun],
    subjects: Sequence[ChangedLevel],
    metric: str,
) -> Changes:
    """Compare the figures of one step, and the plans of all `steps`; the first subject is the baseline.

    Three queries, and one for each step with plans."""
    compared = _figures(step, places, subjects, metric)
    return replace(compared, plans=plan_changes(steps, places, {subject.label: subject.name for subject in subjects}))


def _figures(step: str, places: Sequence[PlacedRun], subjects: Sequence[ChangedLevel], metric: str) -> Changes:
    """Return the changes of figures; empty and without a note if no collector ran."""
    base = subjects[0]
    if not StepMeans.objects.filter(run__in=[place.run for place in places[:MOST_RUNS]], step=step).exists():
        return Changes(base.heading)
    if len(places) > MOST_RUNS:
        return Changes(base.heading, note=TOO_MANY)
    runs = {label: sum(place.level == label for place in places) for label in (subject.label for subject in subjects)}
    enough = {label for label, count in runs.items() if count >= POINTS_ONLY_BELOW}
    if base.label not in enough or len(enough) < 2:
        return Changes(base.heading, note=TOO_FEW)
    observations = observed(step, places, metric)
    ratios = [key for key, figure in observations.figures.items() if figure.is_ratio]
    compared = stats.associations(observations.rows, base.label, ratios)
    levels = [_level(subject, base, compared, observations) for subject in subjects[1:] if subject.label in enough]
    levels = [level for level in levels if level.compared]
    return Changes(base.heading, levels, note="" if levels else FEW_BLOCKS)


def _level(
    subject: ChangedLevel, base: ChangedLevel, compared: Sequence[Association], observations: Observed
) -> LevelChanges:
    own = [association for association in compared if association.level == subject.label]
    with_figure = {association.figure: (association, observations.figures[association.figure]) for association in own}
    moved = [(one, figure) for one, figure in with_figure.values() if one.differs]
    shown = [
        phrases.mechanism(each.title, subject.name, [with_figure[one.figure] for one in expected], each.why)
        for each, expected in mechanisms(own, observations.figures, base.settings, subject.settings)
    ]
    sentence = phrases.sentence(subject.name, base.name, moved, len(own), subject.metric)
    rows = [_change(*each) for each in moved]
    return LevelChanges(subject.label, subject.name, subject.heading, sentence, len(own), rows, shown)


def _change(one: Association, figure: WatchedFigure) -> FigureChange:
    numbers: Mapping[str, Any] = {
        name: getattr(one, name) for name in ("before", "after", "is_ratio", "change", "low", "high", "effect", "q")
    }
    return FigureChange(
        figure=figure.key,
        title=figure.title,
        group=figure.group,
        unit=figure.unit,
        before_text=phrases.amount(one.before, figure.unit),
        after_text=phrases.amount(one.after, figure.unit),
        change_text=phrases.change(one, figure),
        interval_text=phrases.interval(one, figure),
        **numbers,
    )

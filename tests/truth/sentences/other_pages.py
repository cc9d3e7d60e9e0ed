"""Sentences of other pages than the campaign's, on random figures, and contradictions in them: Compare, schedules, what
changed with a level, the confirmation of a search, and reviews of decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np

import stats
from apps.campaigns.models import Campaign
from apps.decisions.models import Review
from apps.decisions.validity.newer_results import against_evidence
from apps.results.answers.changes import phrases
from apps.results.answers.changes.figures import COLLECTED, WatchedFigure
from apps.results.answers.table import CampaignTable
from apps.searches.constraints import ConfirmedConstraint, Constraint
from apps.searches.queries import Confirmation
from stats.comparison.limits import BROKEN, AgainstLimit, against_limit
from stats.model import decide
from tests.truth.sentences.contradictions import BAD, GOOD, NUMBER, Figures, contradictions, verdict_in

IN_HISTORY = re.compile(rf" (?P<ratio>{NUMBER}) % \(95 % CI (?P<low>{NUMBER}) % to (?P<high>{NUMBER}) %\)")
HISTORY_TEXTS = {
    "better": " is better than in the ",
    "worse": " is worse than in the ",
    "direction_better": " is likely better than in the ",
    "direction_worse": " is likely worse than in the ",
    "equivalent": " is equivalent to the ",
    "undetectable": " is within the usual noise of the ",
}
CHANGED = re.compile(
    rf"(?P<ratio>{NUMBER}) (?:%\)?|points) \(95 % CI (?P<low>{NUMBER}) to (?P<high>{NUMBER}) (?:%|points)\)"
)
LIMIT = 1000.0


def wrong_on_other_pages(number: int) -> Iterator[str]:
    rng = np.random.default_rng([20261128, number])
    delta, better = float(rng.choice([0.005, 0.02, 0.1])), str(rng.choice(["higher", "lower"]))
    metric = stats.Metric("tps" if better == "higher" else "latency_avg", "", better)  # type: ignore[arg-type]
    yield from (f"Compare: {each}" for each in _wrong_compare(rng, metric, delta))
    yield from (f"schedule: {each}" for each in _wrong_history(rng, metric, delta))
    yield from (f"what changed: {each}" for each in _wrong_changes(rng))


def _runs(rng: np.random.Generator, effect: float, day: float, least: int = 1) -> list[float]:
    sd = float(rng.choice([0, 0.002, 0.01, 0.1]))
    return [1000 * float(np.exp(effect + day + rng.normal(0, sd))) for _ in range(int(rng.integers(least, 9)))]


def _wrong_compare(rng: np.random.Generator, metric: stats.Metric, delta: float) -> Iterator[str]:
    """Two sides of different campaigns, with and without a history of the host."""
    day_sd = float(rng.choice([0, 0.005, 0.03]))
    first, second = (_runs(rng, effect, rng.normal(0, day_sd)) for effect in (0.0, float(rng.choice([0, 0.02, -0.3]))))
    days = range(int(rng.integers(0, 8)))
    history = [stats.Cell("same", str(day), _runs(rng, 0.0, rng.normal(0, day_sd), 2)) for day in days]
    between = stats.between_campaigns(history)
    of = int(rng.choice([1, 1, 3]))
    one = stats.compare_campaigns(first, second, between, metric=metric, delta=delta, names=("a", "b"), of=of)
    sentence = one.sentence()
    if between is None:
        certain = verdict_in(sentence) not in ("", "undetectable")
        yield from [f"claims a difference without a history: {sentence}"] * certain
        return
    yield from (f"{each}: {sentence}" for each in contradictions(sentence, metric.better, delta))
    if one.interval and verdict_in(sentence) != one.verdict:
        yield f"verdict {one.verdict}: {sentence}"


def _wrong_history(rng: np.random.Generator, metric: stats.Metric, delta: float) -> Iterator[str]:
    day_sd, effect = float(rng.choice([0, 0.005, 0.03])), float(rng.choice([0, 0, 0.03, -0.03, 0.3]))
    earlier = [_runs(rng, 0.0, rng.normal(0, day_sd)) for _ in range(int(rng.integers(3, 12)))]
    newest = _runs(rng, effect, rng.normal(0, day_sd))
    predicted = stats.against_history(earlier, newest, better=metric.better, delta=delta, of=int(rng.choice([1, 4])))
    if predicted is None:
        return
    sentence = predicted.sentence("1 cpu", metric.name)
    match = IN_HISTORY.search(sentence)
    stated = next((verdict for verdict, text in HISTORY_TEXTS.items() if text in sentence), "")
    if match is None or stated != predicted.verdict:
        yield f"verdict {predicted.verdict}: {sentence}"
        return
    figures = Figures.of(match)
    yield from (f"{each}: {sentence}" for each in _wrong_direction(stated, figures, metric.better))
    expected = decide(predicted.interval, predicted.interval, delta, metric.better)
    if expected not in (stated, "equivalent") and stated != "equivalent":
        yield f"the interval says {expected}: {sentence}"


def _wrong_direction(stated: str, figures: Figures, better: str) -> Iterator[str]:
    good = (figures.low + figures.high > 0) == (better == "higher")
    if not figures.low - 0.5 <= figures.ratio <= figures.high + 0.5:
        yield "the estimate lies outside of its interval"
    if (stated in GOOD and not good) or (stated in BAD and good):
        yield "the interval is on the other side"
    if stated in GOOD + BAD and figures.includes_zero:
        yield "the interval includes 0"
    if stated == "undetectable" and figures.excludes_zero:
        yield "the interval excludes 0"


def _wrong_changes(rng: np.random.Generator) -> Iterator[str]:
    figures = {figure.key: figure for figure in rng.choice(np.array(COLLECTED, dtype=object), 12, replace=False)}
    blocks, shared = int(rng.integers(3, 9)), bool(rng.random() < 0.7)
    rows = {key: _observed(rng, figure, blocks, shared) for key, figure in figures.items()}
    compared = stats.associations(rows, "a", [key for key, figure in figures.items() if figure.is_ratio])
    moved = [(one, figures[one.figure]) for one in compared if one.differs]
    sentence = phrases.sentence("b", "a", moved, len(compared), "tps +1.00 %")
    if (not moved) != sentence.startswith("No figure differs"):
        yield f"{len(moved)} figures differ: {sentence}"
    if re.search(r"\bnan\b|\binf\b|None|  |, ,|e[-+]\d", sentence):
        yield f"text: {sentence}"
    for match in CHANGED.finditer(sentence):
        own = Figures.of(match)
        if own.includes_zero or not own.low - 0.5 <= own.ratio <= own.high + 0.5:
            yield f"an interval includes 0, or excludes its estimate: {sentence}"
    for one, figure in moved:
        if one.change * (one.after - one.before) < 0:
            yield f"{figure.title} changes by {one.change:g}, from {one.before:g} to {one.after:g}"


def _observed(rng: np.random.Generator, figure: WatchedFigure, blocks: int, shared: bool) -> list[stats.Observation]:
    level = 20.0 if figure.kind == "share" else float(rng.choice([0.003, 5, 4000, 3e7]))
    effect, sd = float(rng.choice([0, 0, 0.05, -0.6, 2])), float(rng.choice([0, 0.001, 0.02, 0.3]))
    zero = float(rng.choice([0, 0, 0.2]))
    rows = []
    for place, (block, name) in enumerate((block, name) for block in range(blocks) for name in "ab"):
        value = level * float(np.exp((effect if name == "b" else 0.0) + rng.normal(0, sd)))
        value = 0.0 if rng.random() < zero else value
        rows.append(stats.Observation(name, block if shared else place, value, place))
    return rows


def wrong_of_table(number: int, campaign: Campaign, table: CampaignTable) -> Iterator[str]:
    """The table of a campaign as the confirmation of a search, and as newer results of a decision."""
    rng = np.random.default_rng([20261129, number])
    yield from (f"search: {each}" for each in _wrong_confirmation(rng, campaign, table))
    yield from (f"decision: {each}" for each in _wrong_review(rng, campaign, table))


def _wrong_confirmation(rng: np.random.Generator, campaign: Campaign, table: CampaignTable) -> Iterator[str]:
    constraint = Constraint(table.metric, "measure", table.metric, table.unit, True, LIMIT)
    limits = {
        level.label: [ConfirmedConstraint(constraint, _against_limit(rng, [point.value for point in level.points]))]
        for level in table.levels
    }
    confirmation = Confirmation(campaign, [table], [], limits)
    shown = [level for level in table.levels if level.sentence]
    for level, finding in zip(shown, confirmation.findings, strict=True):
        limit = limits[level.label][0]
        text = {"met": "", BROKEN: "No gain: ", "uncertain": "No certain gain: "}[limit.verdict]
        if not finding.startswith(text or level.sentence) or not finding.endswith(level.sentence):
            yield f"{limit.verdict}: {finding}"
        high = limit.result.high if limit.result else None
        if high is not None and (limit.verdict == "met") != (high <= LIMIT):
            yield f"{limit.verdict}, interval to {high:g}: {finding}"
    gains = [level for level in shown if level.verdict in GOOD[:2] and limits[level.label][0].verdict == "met"]
    if confirmation.is_better != bool(gains):
        yield f"is better: {confirmation.is_better}, gains: {[level.sentence for level in gains]}"


def _against_limit(rng: np.random.Generator, values: Sequence[float]) -> AgainstLimit | None:
    return against_limit(values, LIMIT, True) if values and rng.random() < 0.95 else None


def _wrong_review(rng: np.random.Generator, campaign: Campaign, table: CampaignTable) -> Iterator[str]:
    """The evidence is the table itself, with some verdicts changed."""
    sure = {level.label: level.verdict for level in table.levels}
    then = {label: str(rng.choice([verdict, "better", "worse", "equivalent"])) for label, verdict in sure.items()}
    levels = [asdict(level) | {"verdict": then[level.label]} for level in table.levels]
    frozen_table = {"baseline": table.baseline, "metric": table.metric, "levels": levels}
    frozen = {"campaign": {"factors": campaign.factors}, "table": frozen_table}
    verdict, sentence = against_evidence(frozen, campaign, lambda: table)
    certain = ("better", "worse", "equivalent")
    pairs = [
        (then[level.label], level.verdict)
        for level in table.levels
        if level.verdict in certain and not level.preliminary and then[level.label] in certain
    ]
    contrary = any(old != new for old, new in pairs)
    failing = any(
        level.verdict == "better_failing" and not level.preliminary and then[level.label] == "better"
        for level in table.levels
    )
    confirmed = Review.Verdict.CONFIRMS if pairs and not failing else Review.Verdict.OPEN
    expected = Review.Verdict.CONTRADICTS if contrary else confirmed
    if verdict != expected:
        yield f"{verdict}, not {expected}: {sentence}"
    for level in table.levels:
        named = f"The evidence found {level.label} {then[level.label]}. Now: {level.sentence}"
        if verdict == Review.Verdict.CONTRADICTS and named in sentence and level.verdict == then[level.label]:
            yield f"the same verdict contradicts: {sentence}"

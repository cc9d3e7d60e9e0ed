"""Contradictions between the verdict, sign, interval, p and margin in the text of a sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NUMBER = r"[+-][\d,]+(?:\.\d+)?"
FIGURES = re.compile(
    rf"(?P<ratio>{NUMBER}) % \((?P<level>9[05]) % CI (?P<low>{NUMBER}) to (?P<high>{NUMBER}) %"
    r"(?:, (?P<runs>[^()]*?))?(?:, p (?P<sign>[<=]) (?P<p>[\d.e-]+))?\)"
)
INTERACTION = re.compile(
    rf"\(ratio (?P<ratio>{NUMBER}) %, 95 % CI (?P<low>{NUMBER}) to (?P<high>{NUMBER}) %"
    r"(?:, largest of \d+ contrasts)?(?:, p (?P<sign>[<=]) (?P<p>[\d.e-]+))?\)"
)
F_TEST = re.compile(r"\(F test, p (?P<sign>[<=]) (?P<p>[\d.e-]+)\)")  # of all contrasts; their interval is of one
# The texts of verdicts in sentences. The first match counts.
VERDICTS = (
    ("better_failing", "better than ", " but more of its "),
    ("direction_better", " is likely better than ", ""),
    ("direction_worse", " is likely worse than ", ""),
    ("better", " is better than ", ""),
    ("worse", " is worse than ", ""),
    ("equivalent", " are equivalent within ", ""),
    ("undetectable", "Inconclusive, ", ""),
)
NOT_AHEAD = (" has the best mean ", " ranks first ")
GOOD, BAD = ("better", "direction_better", "better_failing"), ("worse", "direction_worse")
WRONG_TEXT = re.compile(
    r"\bnan\b|\binf\b|\bNone\b|(?<!and )\b1 (?:runs|levels|blocks|hosts)\b|[{}]|  |\.\.|e-[1-9]\d|%!| ,"
)


@dataclass(frozen=True)
class Figures:
    """The figures of a difference in a sentence, in percent. `p_most`: p or its upper bound."""

    ratio: float
    low: float
    high: float
    p: float | None
    is_bound: bool

    @classmethod
    def of(cls, match: re.Match[str]) -> Figures:
        groups = match.groupdict()
        p = float(groups["p"]) if groups.get("p") else None
        return cls(*(_number(groups[name]) for name in ("ratio", "low", "high")), p, groups.get("sign") == "<")

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 is outside of the interval by more than the rounding of its ends."""
        return self.low > _rounding(self.low) or self.high < -_rounding(self.high)

    @property
    def includes_zero(self) -> bool:
        """Whether 0 is inside of the interval by more than the rounding of its ends."""
        return self.low < -_rounding(self.low) and self.high > _rounding(self.high)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _rounding(value: float) -> float:
    """The rounding error: half a unit of the last digit in the sentence."""
    size = abs(value)
    if size >= 99.95:
        return 0.5 * 10 ** (math.floor(math.log10(size)) - 2)
    return 0.05 if size >= 9.995 else 0.005


def verdict_in(sentence: str) -> str:
    """The verdict that a sentence on two levels states; "" if it states none."""
    return next((verdict for verdict, text, other in VERDICTS if text in sentence and other in sentence), "")


def contradictions(sentence: str, better: str, delta: float) -> Iterator[str]:
    """Yield the contradictions in one sentence. `better`: the good direction; `delta`: minimum effect, a fraction."""
    if wrong := WRONG_TEXT.search(sentence):
        yield f"writes {wrong[0]!r}"
    if " interact" in sentence or "act independently" in sentence or "Interaction of" in sentence:
        yield from _of_interaction(sentence, delta)
        return
    match, verdict = FIGURES.search(sentence), verdict_in(sentence)
    if match is None:
        return
    figures = Figures.of(match)
    yield from _of_interval(figures)
    if verdict:
        yield from _of_verdict(verdict, figures, better, 100 * delta)
    elif any(text in sentence for text in (" is the best of ", *NOT_AHEAD)):
        yield from _of_best(sentence, figures, better)
    elif "more than noise explains" in sentence and figures.includes_zero:
        yield "says more than noise, but the interval includes 0"


def _of_interval(figures: Figures) -> Iterator[str]:
    slack = _rounding(figures.low) + _rounding(figures.high) + _rounding(figures.ratio)
    if not figures.low - slack <= figures.ratio <= figures.high + slack:
        yield "the estimate lies outside of its interval"
    if figures.p is not None and figures.p < 0.0495 and figures.includes_zero:
        yield "p is below 0.05, but the interval includes 0"
    if figures.p is not None and not figures.is_bound and figures.p > 0.0505 and figures.excludes_zero:
        yield "p is above 0.05, but the interval excludes 0"


def _of_verdict(verdict: str, figures: Figures, better: str, margin: float) -> Iterator[str]:
    upward = figures.low + figures.high > 0
    good = upward == (better == "higher")
    beyond = figures.low + _rounding(figures.low) >= margin or figures.high - _rounding(figures.high) <= -margin
    inside = figures.low + _rounding(figures.low) > -margin and figures.high - _rounding(figures.high) < margin
    clearly_beyond = figures.low - _rounding(figures.low) > margin or figures.high + _rounding(figures.high) < -margin
    if (verdict in GOOD and not good) or (verdict in BAD and good):
        yield f"says {verdict}, but the interval is on the other side"
    if verdict in ("better", "worse") and not beyond:
        yield f"says {verdict}, but the interval is not beyond {margin:g} %"
    if verdict.startswith("direction") and (figures.includes_zero or clearly_beyond):
        yield f"says {verdict}, but the interval includes 0 or lies beyond {margin:g} %"
    if verdict == "equivalent" and not inside:
        yield f"says equivalent, but the interval is not inside {margin:g} %"
    if verdict == "undetectable" and figures.excludes_zero:
        yield "says inconclusive, but the interval excludes 0"


def _of_best(sentence: str, figures: Figures, better: str) -> Iterator[str]:
    sign = 1 if better == "higher" else -1
    if sign * figures.ratio < -_rounding(figures.ratio):
        yield "calls a level the best whose figure is not"
    if " is the best of " in sentence and figures.includes_zero:
        yield "says the best, but the interval includes 0"
    if any(text in sentence for text in NOT_AHEAD) and figures.excludes_zero:
        yield "says not clearly ahead, but the interval excludes 0"


def _of_interaction(sentence: str, delta: float) -> Iterator[str]:
    match = INTERACTION.search(sentence)
    if match is None:
        return
    figures = Figures.of(match)
    yield from _of_interval(figures)
    margin = 100 * delta
    inside = figures.low + _rounding(figures.low) > -margin and figures.high - _rounding(figures.high) < margin
    if "act independently" in sentence and not inside:
        yield f"says independent, but the interval is not inside {margin:g} %"
    overall = F_TEST.search(sentence)
    p = float(overall["p"]) if overall else figures.p
    if " interact" in sentence and p is not None and p > 0.0505:
        yield "says that factors interact, but p is above 0.05"
    if "inconclusive" in sentence and p is not None and p < 0.0495:
        yield "says inconclusive, but p is below 0.05"
    if "no single contrast is certain" in sentence and figures.excludes_zero:
        yield "says that no contrast is certain, but the interval excludes 0"


def order_of(verdicts: Sequence[str], shown: str, order: Sequence[str]) -> Iterator[str]:
    """Yield an error if the verdict of the card is not the first of all verdicts in this order."""
    first = min(verdicts, key=order.index, default=shown)
    if first != shown:
        yield f"shows {shown}, but a level is {first}"

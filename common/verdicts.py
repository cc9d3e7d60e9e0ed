"""The verdicts of comparisons, what each of them claims, and how page, chart, report, API and CLI show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

# What figures alone can show: a comparison of the statistics has one of these.
ComparisonVerdict = Literal[
    "points_only", "better", "worse", "equivalent", "direction_better", "direction_worse", "undetectable"
]
# A level that is better or likely better, but fails clearly more often. The server adds it, because failed runs and
# transactions have no figures that the statistics could compare.
BETTER_FAILING: Final = "better_failing"
INCONCLUSIVE: Final = "undetectable"
TOO_FEW_RUNS: Final = "points_only"

# What a sentence means for a reader: good, bad or neither.
Tone = Literal["better", "worse", "equivalent", "unknown", "warning", "note"]


@dataclass(frozen=True)
class ToneStyle:
    """`icon`: colour is never the only sign. `colour`: its position in a chart's palette; None for that of text."""

    css_class: str
    icon: str
    colour: int | None = None


TONES: Mapping[str, ToneStyle] = {
    "better": ToneStyle("better", "▲", 0),
    "worse": ToneStyle("worse", "▼", 1),
    "equivalent": ToneStyle("same", "="),
    "unknown": ToneStyle("unknown", "?"),
    "warning": ToneStyle("warn", "!"),
    "note": ToneStyle("unknown", "·"),
}


@dataclass(frozen=True)
class Verdict:
    """`name`: as stored and in the API; `word`: as people read it; `marker`: its symbol in a Plotly chart.

    `is_certain`: the data exclude the opposite answer. A likely verdict is uncertain about the size of a difference.
    """

    name: str
    word: str
    tone: Tone = "unknown"
    icon: str = "?"
    marker: str = "circle-open"
    is_certain: bool = False

    @property
    def css_class(self) -> str:
        return TONES[self.tone].css_class

    @property
    def colour(self) -> int | None:
        """The position of its colour in a chart's palette; None for the colour of text."""
        return TONES[self.tone].colour

    @property
    def is_decisive(self) -> bool:
        """Whether it answers the question: better, worse or equivalent, or likely so."""
        return self.tone in ("better", "worse", "equivalent")

    @property
    def is_better(self) -> bool:
        return self.tone == "better"

    @property
    def is_worse(self) -> bool:
        return self.tone == "worse"


# In the order in which they answer the question of a campaign: a certain gain before a likely one, a loss before
# what is not known.
VERDICTS: Mapping[str, Verdict] = {
    verdict.name: verdict
    for verdict in (
        Verdict("better", "better", "better", "▲", "triangle-up", is_certain=True),
        Verdict("direction_better", "likely better", "better", "△", "triangle-up-open"),
        Verdict(BETTER_FAILING, "better, but more failures", "warning", "!"),
        Verdict("worse", "worse", "worse", "▼", "triangle-down", is_certain=True),
        Verdict("direction_worse", "likely worse", "worse", "▽", "triangle-down-open"),
        Verdict(INCONCLUSIVE, "inconclusive"),
        Verdict("equivalent", "equivalent", "equivalent", "=", "square", is_certain=True),
        Verdict(TOO_FEW_RUNS, "too few runs"),
    )
}


def verdict(name: str) -> Verdict:
    """The verdict of this name. One that this version does not know is shown by its name, without a claim."""
    return VERDICTS.get(name) or Verdict(name, name)

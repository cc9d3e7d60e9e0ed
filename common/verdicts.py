"""The verdicts of comparisons, and the tones of findings: how page, chart, report, API and CLI show them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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


VERDICTS: Mapping[str, Verdict] = {
    verdict.name: verdict
    for verdict in (
        Verdict("better", "better", "better", "▲", "triangle-up", is_certain=True),
        Verdict("direction_better", "likely better", "better", "△", "triangle-up-open"),
        Verdict("better_failing", "better, but more failures", "warning", "!"),
        Verdict("worse", "worse", "worse", "▼", "triangle-down", is_certain=True),
        Verdict("direction_worse", "likely worse", "worse", "▽", "triangle-down-open"),
        Verdict("equivalent", "equivalent", "equivalent", "=", "square", is_certain=True),
        Verdict("undetectable", "inconclusive"),
        Verdict("points_only", "too few runs"),
    )
}


def verdict(name: str) -> Verdict:
    """The verdict of this name. One that this version does not know is shown by its name, without a claim."""
    return VERDICTS.get(name) or Verdict(name, name)

"""A finding: a sentence with its topic, its tone and its figures, the same wherever it is shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Tone = Literal["better", "worse", "equivalent", "unknown", "warning", "note"]
TONES: Mapping[str, Tone] = {
    "better": "better",
    "direction_better": "better",
    "worse": "worse",
    "direction_worse": "worse",
    "equivalent": "equivalent",
    "better_failing": "warning",
}


@dataclass(frozen=True)
class Judgement:
    """`tone`: that of a verdict; a warning; or a note, which is neither good nor bad. `figures` are those of the
    sentence, with their units in their names."""

    topic: str
    sentence: str
    tone: Tone
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def tone_of(verdict: str) -> Tone:
    return TONES.get(verdict, "unknown")


# The topics that a reader needs first; each contributes one finding.
KEY_TOPICS = (
    *("data", "failed", "failures", "zeros", "extension", "interaction", "comparison", "cpu", "mechanism"),
    *("best", "latency", "sensitivity", "drift"),
)
MOST_KEY = 5


def key_findings(judgements: Sequence[Judgement]) -> tuple[list[Judgement], list[Judgement]]:
    """The most important findings, at most MOST_KEY, and all others."""
    first = {topic: next((each for each in judgements if each.topic == topic), None) for topic in KEY_TOPICS}
    key = [each for each in first.values() if each][:MOST_KEY]
    return key, [each for each in judgements if each not in key]


def by_topic(judgements: Iterable[Judgement]) -> list[tuple[str, list[Judgement]]]:
    """In the order in which their topics come first."""
    topics: dict[str, list[Judgement]] = {}
    for each in judgements:
        topics.setdefault(each.topic, []).append(each)
    return list(topics.items())

"""Findings: sentences with topic, tone and figures, shown in the same way everywhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from common.verdicts import Tone


@dataclass(frozen=True)
class Judgement:
    """`tone`: that of a verdict; a warning; or a note, which is neutral. `figures`: those in the sentence, with
    units in their names."""

    topic: str
    sentence: str
    tone: Tone
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# The topics that a reader needs first; each contributes one finding.
KEY_TOPICS = (
    *(
        "data",
        "failed",
        "failures",
        "zeros",
        "neighbours",
        "fixed rate",
        "running",
        "extension",
        "interaction",
        "comparison",
        "cpu",
        "mechanism",
    ),
    *("modes", "best", "latency", "sensitivity", "drift"),
)
MOST_KEY = 5


def key_findings(judgements: Sequence[Judgement]) -> tuple[list[Judgement], list[Judgement]]:
    """Return (the most important findings, at most MOST_KEY; all others)."""
    first = {
        topic: next((judgement for judgement in judgements if judgement.topic == topic), None) for topic in KEY_TOPICS
    }
    key = [each for each in first.values() if each][:MOST_KEY]
    return key, [judgement for judgement in judgements if judgement not in key]


def by_topic(judgements: Iterable[Judgement]) -> list[tuple[str, list[Judgement]]]:
    """Return the findings by topic, in the order in which topics first appear."""
    topics: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        topics.setdefault(judgement.topic, []).append(judgement)
    return list(topics.items())

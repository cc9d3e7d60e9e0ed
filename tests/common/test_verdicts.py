"""The verdicts, as page, chart, report, API and CLI show them."""

from __future__ import annotations

import typing

import pytest

import stats.model
from common.verdicts import TONES, VERDICTS, Tone, verdict


def test_every_verdict_of_the_statistics_has_a_word_and_a_tone() -> None:
    assert set(VERDICTS) == {*typing.get_args(stats.model.Verdict), "better_failing"}
    assert set(TONES) == set(typing.get_args(Tone))
    assert len({shown.word for shown in VERDICTS.values()}) == len(VERDICTS)


@pytest.mark.parametrize("direction", ["better", "worse"])
def test_a_likely_verdict_has_the_colour_of_a_certain_one_and_another_icon_and_marker(direction: str) -> None:
    shown, certain = verdict(f"direction_{direction}"), verdict(direction)

    assert shown.word == f"likely {certain.word}"
    assert (shown.tone, shown.colour, shown.css_class) == (certain.tone, certain.colour, certain.css_class)
    assert shown.icon != certain.icon and shown.marker == f"{certain.marker}-open"
    assert (shown.is_certain, certain.is_certain) == (False, True)


def test_only_better_worse_and_equivalent_are_certain() -> None:
    assert {name for name, shown in VERDICTS.items() if shown.is_certain} == {"better", "worse", "equivalent"}
    decisive = {"better", "worse", "equivalent", "direction_better", "direction_worse"}
    assert {name for name, shown in VERDICTS.items() if shown.is_decisive} == decisive


def test_a_verdict_of_a_newer_version_is_shown_by_its_name_and_claims_nothing() -> None:
    shown = verdict("tied")

    assert (shown.word, shown.css_class, shown.colour, shown.is_decisive) == ("tied", "unknown", None, False)

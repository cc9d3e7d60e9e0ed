"""Random campaigns are rendered without an error or a sentence that contradicts its figures (tests/truth/sentences)."""

from __future__ import annotations

import pytest

from tests.truth.sentences.contradictions import contradictions
from tests.truth.sentences.rendering import wrong

CAMPAIGNS = 100  # python -m tests.truth.sentences renders more
# Campaigns for which the product was once wrong.
ERROR_OF_DRIFT, FLOOR_OF_ONE_RUN, BEST_BY_RANKS = 87570, 64334, (108318, 158102)


@pytest.mark.thorough
def test_random_campaigns_are_rendered_without_an_error_or_a_contradiction() -> None:
    assert {number: errors for number in range(CAMPAIGNS) if (errors := wrong(number))} == {}


@pytest.mark.parametrize("number", [ERROR_OF_DRIFT, FLOOR_OF_ONE_RUN, *BEST_BY_RANKS])
def test_a_campaign_that_was_once_wrong_has_no_error_and_no_contradiction(number: int) -> None:
    assert wrong(number) == []


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("b is better than a: tps +3.00 % (95 % CI +1.00 to +5.00 %, 5 runs of each, p = 0.01).", "not beyond 2 %"),
        ("b is better than a: tps -4.00 % (95 % CI -5.00 to -3.00 %, 5 runs of each, p = 0.01).", "on the other side"),
        ("Inconclusive, b against a: tps +3.00 % (95 % CI +1.00 to +5.00 %, 5 runs of each).", "excludes 0"),
        (
            "b is likely better than a, size uncertain: tps +1.00 % (95 % CI -1.00 to +3.00 %, 5 runs of each).",
            "includes 0",
        ),
        (
            "b and a are equivalent within 2 %: tps +1.00 % (90 % CI -1.00 to +3.00 %, 5 runs of each).",
            "not inside 2 %",
        ),
        ("b is the best of 4 levels: -1.00 % (95 % CI -3.00 to +1.00 %) against c.", "the best whose figure is not"),
        (
            "Inconclusive, b against a: tps +6.00 % (95 % CI -1.00 to +5.00 %, 5 runs of each).",
            "outside of its interval",
        ),
        ("Inconclusive, b against a: tps +3.00 % (95 % CI -1.00 to +7.00 %, 5 runs of each, p = 0.01).", "p is below"),
        ("b has the best mean but is not clearly ahead: +1.00 % (95 % CI +nan to +nan %) against c.", "nan"),
        ("a and b interact: effects (ratio +1.00 %, 95 % CI -1.00 to +3.00 %, p = 0.2).", "p is above 0.05"),
        (
            "a and b interact (F test, p = 0.2): effects (ratio +1.00 %, 95 % CI +0.50 to +3.00 %, "
            "largest of 2 contrasts).",
            "p is above 0.05",
        ),
    ],
)
def test_a_sentence_that_contradicts_its_figures_is_recognised(sentence: str, message: str) -> None:
    assert any(message in error for error in contradictions(sentence, "higher", 0.02))

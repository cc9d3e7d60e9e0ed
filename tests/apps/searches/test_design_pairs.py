"""What the page of a search says about its design."""

from __future__ import annotations

from typing import Any

import pytest

from apps.searches import space
from apps.searches.models import Search
from apps.searches.pages.design_pairs import design_pairs
from tests.rows.factories import make_search


@pytest.fixture
def search(db: None) -> Search:
    return make_search()


def texts(search: Search) -> dict[str, str]:
    """Name -> the text of all parts, with "/" for a new line."""
    return {
        each.name: "".join("/" if part.look == "break" else str(part.text) for part in each.parts)
        for each in design_pairs(search, space.read(search.space))
    }


def test_a_new_search_says_what_it_varies_and_confirms(search: Search) -> None:
    shown = texts(search)

    assert shown["Settings"] == "work_mem 64kB to 1GB, log /jit on, off "
    assert shown["Metric"] == "tps, minimum effect of interest 2\u202f%"
    assert shown["Rounds"] == "3 candidates beside the default, 2 blocks, randomised; seed 1"
    assert shown["Confirmation"] == "at most 1 candidate beside the default, 5 blocks"
    assert not {"Constraints", "Earlier trials", "Metrics"} & shown.keys()


@pytest.mark.parametrize(
    ("fields", "name", "text"),
    [
        ({"fixed": {"jit": "off"}}, "Settings", "work_mem 64kB to 1GB, log /jit on, off fixed at off"),
        ({"second_metric": "latency_avg"}, "Metrics", "tps and latency_avg, minimum effect of interest 2\u202f%"),
        ({"constraints": ["latency_avg <= 5"]}, "Constraints", "latency_avg <= 5 msdefault: not measured yet"),
        ({"picked": [3, 17]}, "Confirmation", "trials 3, 17, picked by a user, beside the default, 5 blocks"),
        (
            {"earlier_left_out": {"other data": 2}},
            "Earlier trials",
            "The optimiser learns from 0 trials of earlier searches. They are not confirmed./Left out: 2 (other data)",
        ),
    ],
)
def test_a_choice_of_the_search_is_shown(search: Search, fields: dict[str, Any], name: str, text: str) -> None:
    for field, value in fields.items():
        setattr(search, field, value)

    assert texts(search)[name] == text

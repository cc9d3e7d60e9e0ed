"""Expressions of users are matched in a process of their own, which is ended after a limit."""

from __future__ import annotations

import pytest

from common.errors import FormatError
from readers.measure import measure
from readers.patterns import last_matches

FIGURE = {"x": {"unit": "ms", "better": "lower"}}


def test_the_last_match_counts() -> None:
    text = b"1 tps\nlat 3\n2 tps\n"

    assert last_matches([r"^(?P<tps>\d+) tps$", r"lat (?P<lat>\d+)"], text) == {"tps": "2", "lat": "3"}


def test_an_expression_that_finds_no_end_is_ended() -> None:
    with pytest.raises(FormatError, match="did not finish within 1 s"):
        last_matches([r"(?P<x>(a+)+)$"], b"a" * 60 + b"b", limit_s=1.0)


@pytest.mark.parametrize(("printed", "message"), [(b"y 1", "x is not in the output"), (b"x nan", "is not a number")])
def test_a_missing_figure_yields_no_measurement(printed: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        measure("command", {"stdout": printed}, {"program": "p", "patterns": r"x (?P<x>\S+)", "figures": FIGURE})

"""No text that a user enters keeps a process busy: each is parsed in a time that grows with its length only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.campaigns.design.steps import single
from apps.campaigns.pages import factor_rows
from apps.searches import constraints
from apps.tuning import fields
from common.errors import PlanError


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (lambda text: factor_rows.arranged([], text, ""), "a" + " = " * 400 + " only with " * 400),
        (lambda text: constraints.read([text], single("pgbench", {})), "a" + " " * 16_000 + "x"),
        (lambda text: constraints.read([text], single("pgbench", {})), "a <= " + "1" * 16_000 + "\nx"),
        (lambda text: fields.read_sections("steps.1", text), "-- script:" + " " * 2000 + "@x"),
    ],
    ids=["condition", "constraint of spaces", "constraint of digits", "heading of a script"],
)
def test_a_long_text_is_refused_at_once_in_few_words(parse: Callable[[str], Any], text: str) -> None:
    began = time.process_time()

    with pytest.raises(PlanError) as refused:
        parse(text)

    assert time.process_time() - began < 0.5
    assert len(refused.value.message) < 400

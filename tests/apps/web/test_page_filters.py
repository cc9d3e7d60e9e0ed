"""Numbers and labels as every page writes them."""

from __future__ import annotations

import pytest

from apps.accounts.templatetags.pages import figure, span, unbroken_option
from apps.campaigns.templatetags.campaigns import step_name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9818.0, "9\u202f818"),
        (9858.13, "9\u202f858"),
        (18668.6, "18\u202f669"),
        (999.7, "1\u202f000"),
        (970.98, "971"),
        (0.079789, "0.07979"),
        (-1428.7, "\u22121\u202f429"),
        (2.889e-05, "0.00002889"),
        (0.0, "0"),
        (None, "–"),
    ],
)
def test_numbers_have_four_digits_and_thousands_are_apart(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_an_option_in_a_label_does_not_break_after_a_hyphen() -> None:
    assert unbroken_option("Latency limit (-L) (ms)") == 'Latency limit <span class="kept">(-L)</span> (ms)'
    assert unbroken_option("Repetitions (of <all>)") == "Repetitions (of <all>)"


@pytest.mark.parametrize(("seconds", "shown"), [(5.0, "5 s"), (8.25, "8.2 s"), (0.04, "0.04 s"), (130, "2 min 10 s")])
def test_a_short_span_has_a_decimal_only_where_it_says_something(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize(
    ("step", "kind", "shown"), [("v", "pgbench", "vacuum"), ("v", "sql", "v"), ("orders", "sql", "orders")]
)
def test_steps_of_pgbench_have_names_instead_of_letters(step: str, kind: str, shown: str) -> None:
    assert step_name(step, kind) == shown

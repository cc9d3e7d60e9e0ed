"""The verdicts, as page, chart, report, API and CLI show them."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.verdicts import BETTER_FAILING, TONES, VERDICTS, ComparisonVerdict, Tone, verdict

ROOT = Path(__file__).parents[2]
PRODUCT = ("apps", "stats", "readers", "cli/proving", "embedded")


def test_every_verdict_of_the_statistics_has_a_word_and_a_tone() -> None:
    assert set(VERDICTS) == {*typing.get_args(ComparisonVerdict), BETTER_FAILING}
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


def test_sets_of_verdicts_are_written_down_only_in_the_module_of_verdicts() -> None:
    files = [file for folder in PRODUCT for file in sorted((ROOT / folder).rglob("*.py"))]

    assert [f"{file.relative_to(ROOT)}:{line}" for file in files for line in _sets_of_verdicts(file.read_text())] == []
    assert list(_sets_of_verdicts((ROOT / "common/verdicts.py").read_text()))


def _sets_of_verdicts(source: str) -> Iterator[int]:
    """The lines of literals that have several elements, all of them names of verdicts."""
    if not any(f'"{name}"' in source for name in VERDICTS):
        return
    for node in ast.walk(ast.parse(source)):
        elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        values = {element.value if isinstance(element, ast.Constant) else None for element in elements}
        if len(values) > 1 and values <= set(VERDICTS):
            yield node.lineno


def test_a_verdict_of_a_newer_version_is_shown_by_its_name_and_claims_nothing() -> None:
    shown = verdict("tied")

    assert (shown.word, shown.css_class, shown.colour, shown.is_decisive) == ("tied", "unknown", None, False)

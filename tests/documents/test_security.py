"""The page on security names the tests that attack each of its promises: they exist, and no promise lacks one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = next((ROOT / "docs").rglob("security.md"))
# The header of the last column of a table of promises, or of the one that names their tests.
PROMISES, TESTS = ("how", "beyond it"), "attacked in"


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, as cells without links, header first and without the line below it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    return [[line.strip("| ").split(" | ") for line in block if set(line) != {"|", "-"}] for block in blocks]


def named(cell: str) -> list[tuple[str, str]]:
    """(file, function) for each test of a cell such as `tests/test_x.py`: `test_one`, `test_two`."""
    file, found = "", list[tuple[str, str]]()
    for code in re.findall(r"`([^`]+)`", cell):
        if code.startswith("tests/"):
            file = code
        else:
            found.append((file, code))
    return found


ALL = tables(DOCUMENT.read_text())
ATTACKED = [row for header, *rows in ALL if header[-1] == TESTS for row in rows]


def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_cell_names_the_functions_of_each_file() -> None:
    cell = "`tests/test_x.py`: `test_one`, `test_two`; `tests/test_y.py`: `test_three`"

    assert named(cell) == [
        ("tests/test_x.py", "test_one"),
        ("tests/test_x.py", "test_two"),
        ("tests/test_y.py", "test_three"),
    ]


@pytest.mark.parametrize("row", ATTACKED, ids=lambda row: row[0])
def test_every_attack_names_tests_that_exist(row: list[str]) -> None:
    tests = named(row[-1])

    assert tests
    assert [test for test in tests if not test[1].startswith("test_") or test[1] not in functions(test[0])] == []


def test_every_promise_and_every_quota_is_attacked() -> None:
    promised = [row[0] for header, *rows in ALL if header[-1] in PROMISES for row in rows]

    assert len(promised) > 20
    assert sorted(set(promised) - {row[0] for row in ATTACKED}) == []

"""Every sample under tests/samples is read as its entry in expected.json declares.

Outcomes: `values` and `same_values` must be met; `..._or_error` may also end in FormatError; `error` must. A partial
result names the missing part under "incomplete", a doubtful one the reason under "warnings". The output of a failed
program (`error_described`) must be reported as a failure. `security` may be read, and lists under "runs" the commands
that it would run. The names in expected.json are those of the corpus: tests/contract/readers translates to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.errors import FormatError
from tests.contract.readers import READERS

SAMPLES = Path(__file__).parents[1] / "samples"
EXPECTED: dict[str, dict[str, Any]] = json.loads((SAMPLES / "expected.json").read_text())
SAYING_NOTHING = {name: (SAMPLES / name).read_bytes() for name, entry in EXPECTED.items() if entry["kind"] == "any"}
MAY_BE_SILENT = ("pgbench_progress", "pgbench_error", "fio_stderr")
# What a doubtful output must say of itself if it is read at all.
ADMISSIONS = {
    "partial_or_error": "incomplete",
    "error_or_list": "runs_found",
    "error_or_warnings": "warnings",
    "security": "runs",
}


def may_refuse(kind: str, name: str) -> bool:
    return kind not in MAY_BE_SILENT or b"\0" in SAYING_NOTHING[name]


def expected_values(name: str) -> dict[str, Any]:
    """The values of an entry, following `same_as`; a name in `override` replaces, null there says "anything"."""
    entry = EXPECTED[name]
    values = dict(entry.get("expect") or (expected_values(entry["same_as"]) if "same_as" in entry else {}))
    values |= entry.get("values", {})
    for key, value in entry.get("override", {}).items():
        values.pop(key, None) if value is None else values.update({key: value})
    if entry.get("override_sql"):
        values["statements"] = [{**statement} for statement in values["statements"]]
        values["statements"][6]["sql"] = "SELECT 'tps = 1.0 (excluding connections establishing)';"
    return values


def assert_holds(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every expected name is there with its value; a name expected as null may be absent."""
    for name, value in expected.items():
        got = actual.get(name)
        if isinstance(value, dict) and isinstance(got, dict):
            assert_holds(got, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            assert got is not None and len(got) == len(value), name
            for one, expected_one in zip(got, value, strict=True):
                assert_holds(one, expected_one)
        else:
            assert got == (pytest.approx(value) if isinstance(value, float) else value), name


def names_with(*outcomes: str) -> list[str]:
    return [name for name, entry in EXPECTED.items() if entry["outcome"] in outcomes and entry["kind"] in READERS]


def read(name: str) -> dict[str, Any]:
    return READERS[EXPECTED[name]["kind"]]((SAMPLES / name).read_bytes())


@pytest.mark.parametrize("name", names_with("values", "same_values"))
def test_a_whole_output_gives_the_values_it_prints(name: str) -> None:
    assert expected_values(name)
    assert_holds(read(name), expected_values(name))


@pytest.mark.parametrize("name", names_with("same_values_or_error"))
def test_an_edited_output_gives_the_true_values_or_an_error(name: str) -> None:
    try:
        actual = read(name)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert_holds(actual, expected_values(name) | {"text_before": actual.get("text_before")})


@pytest.mark.parametrize("name", names_with("error"))
def test_a_damaged_output_is_refused(name: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(name)

    assert caught.value.subject and caught.value.message and caught.value.hint


@pytest.mark.parametrize("name", names_with(*ADMISSIONS))
def test_a_doubtful_output_is_refused_or_has_a_warning(name: str) -> None:
    try:
        actual = read(name)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert actual[ADMISSIONS[EXPECTED[name]["outcome"]]]


@pytest.mark.parametrize("name", names_with("error_described"))
def test_the_output_of_a_failed_program_gives_its_reason(name: str) -> None:
    try:
        actual = read(name)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert_holds(actual, EXPECTED[name]["expect"])


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in READERS for name in SAYING_NOTHING if may_refuse(kind, name)]
)
def test_an_output_that_says_nothing_is_refused(kind: str, name: str) -> None:
    with pytest.raises(FormatError) as caught:
        READERS[kind](SAYING_NOTHING[name])

    assert caught.value.subject and caught.value.message


@pytest.mark.parametrize("kind", MAY_BE_SILENT)
def test_a_stderr_may_be_silent(kind: str) -> None:
    assert not any(READERS[kind](b"").values())


def test_every_sample_is_listed_and_every_kind_is_read() -> None:
    files = {path.name for path in SAMPLES.iterdir()} - {"expected.json", "README.md"}

    assert files == set(EXPECTED)
    assert {entry["kind"] for entry in EXPECTED.values()} == set(READERS) | {"any"}

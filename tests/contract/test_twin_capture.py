"""The file of a capture is not trusted: a field that is missing, unknown, too long or of another type is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.errors import FormatError
from readers.twin import capture
from readers.twin.capture import read_capture
from readers.twin.equal_calls import equal_calls
from readers.twin.model import Capture, Counts, Statement, Updates

SAMPLE = Path(__file__).parent / "captures" / "shop-18.jsonl"
LINES = [json.loads(line) for line in SAMPLE.read_text().splitlines()]


def changed(kind: str, **fields: Any) -> bytes:
    """The sample, with other fields in its first line of this kind."""
    first = next(line for line in LINES if kind in line)
    return written([{kind: {**first[kind], **fields}} if line is first else line for line in LINES])


def written(lines: list[Any]) -> bytes:
    return "\n".join(map(json.dumps, lines)).encode()


def test_counts_are_those_between_the_snapshots() -> None:
    captured = read_capture(SAMPLE.read_bytes())

    (lookup,) = [statement for statement in captured.statements if statement.text.startswith("select id, email")]
    assert (lookup.counts.calls, lookup.counts.rows, lookup.counts.blocks) == (911, 911, 2750)
    assert captured.seconds == pytest.approx(4.8, abs=0.1)
    assert captured.statements[0].counts.ms == max(statement.counts.ms for statement in captured.statements)


def test_counts_that_became_smaller_were_reset_and_count_from_zero() -> None:
    (name, *_), after = next(
        (line["before"], other["after"])
        for line in LINES
        if "before" in line
        for other in LINES
        if "after" in other and other["after"][0] == line["before"][0]
    )
    before = {"before": [name, 10**6, 1.0, 0, 0, 0, 0, 0, 0]}

    captured = read_capture(written([before if line.get("before", [""])[0] == name else line for line in LINES]))

    (reset,) = [statement for statement in captured.statements if statement.queryid == name]
    assert reset.counts.calls == after[1]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not complete"),
        (written(LINES[:-1]), "lines 'end', not 1"),
        (b"\xff", "line 1 is not JSON"),
        (b"[" * 100_000, "line 1 is not JSON"),
        (b'{"table": 1, "index": 2}', "line 1 does not belong to a capture"),
        (written([*LINES, {"shell": "ls"}]), "does not belong to a capture"),
        (changed("table", name="x" * 64), "table.name: a text of 1 to 63"),
        (changed("table", name="a\x00b"), "table.name"),
        (changed("table", name="a\ud800b"), "table.name"),
        (changed("table", rows=10**400), "table.rows: a number from 0"),
        (changed("table", rows=-1), "table.rows: a number from 0"),
        (changed("table", rows=True), "table.rows: a number"),
        (changed("table", rows=float("nan")), "table.rows: a number"),
        (changed("table", columns=[{"name": "id"}]), "table.columns: the fields name, type"),
        (changed("statistics", null_frac=2), "statistics.null_frac: a number from 0 to 1"),
        (changed("statistics", frequencies="all"), "statistics.frequencies: a list"),
        (changed("statistics", values=["secret"]), "statistics: the fields"),
        (changed("server", encoding=8), "server.encoding"),
        (changed("settings", work_mem="4MB"), "settings: a list of at most 2 values"),
        (written([line for line in LINES if "settings" not in line]), "0 lines 'settings', not 1"),
        (written([*LINES, {"after": [1, 2]}]), "after: a list of 10 values"),
        (written([*LINES, next(line for line in LINES if "table" in line)]), "a table occurs twice"),
        (written([*LINES, *[next(line for line in LINES if "table" in line)] * 2000]), "at most 2,000 are accepted"),
    ],
)
def test_the_error_for_an_invalid_file_names_line_field_and_what_is_accepted(raw: bytes, message: str) -> None:
    with pytest.raises(FormatError) as raised:
        read_capture(raw)

    assert message in raised.value.message and raised.value.hint


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MOST_BYTES", 1000)

    with pytest.raises(FormatError, match="at most 1,000 are accepted"):
        read_capture(SAMPLE.read_bytes())


def called(*statements: tuple[str, int]) -> Capture:
    """The sample with these statements and their calls."""
    counted = (Statement(str(n), text, Counts(calls=calls)) for n, (text, calls) in enumerate(statements))
    return replace(read_capture(SAMPLE.read_bytes()), statements=tuple(counted))


@pytest.mark.parametrize(
    ("commits", "update", "groups"),
    [(5000, 5001, [["1", "0"]]), (5000, 5100, []), (100, 5001, [])],
    ids=["equal", "other calls", "fewer commits"],
)
def test_statements_with_equal_calls_and_at_least_that_many_commits_may_be_one_transaction(
    commits: int, update: int, groups: list[list[str]]
) -> None:
    captured = called(("insert into t values ($1)", 5000), ("update u set a = $1", update), ("COMMIT", commits))

    assert [[each.queryid for each in group] for group in equal_calls(captured)] == groups


def test_statements_that_only_read_are_no_transaction() -> None:
    assert equal_calls(called(("select a from t", 5000), ("select b from t", 5000), ("COMMIT", 5000))) == []


def test_updates_are_those_between_the_snapshots() -> None:
    changes = [
        {"changes": ["shop", "customers", 1, 100, 100]},
        {"changes": ["shop", "customers", 2, 300, 150]},
        {"changes": ["shop", "orders", 2, 40, 40]},
        {"changes": ["shop", "lines", 1, 7, 7]},
    ]

    captured = read_capture(written([*LINES, *changes]))

    assert captured.updates == {("shop", "customers"): Updates(200, 50), ("shop", "orders"): Updates(40, 40)}

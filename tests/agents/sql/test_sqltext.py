"""The end of each SQL statement in a text."""

from __future__ import annotations

import pytest

from agents.sql.text import quoted, statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; -- nothing\n /* at /* all */ */ ; ", []),
        ("select 1", ["select 1"]),
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';', 'it''s;'; x", ["select ';', 'it''s;'", "x"]),
        ('select 1 as "a;""b"; x', ['select 1 as "a;""b"', "x"]),
        ("select E'\\';'; x", ["select E'\\';'", "x"]),
        ("select '\\'; x", ["select '\\'", "x"]),
        ("do $$begin; end$$; do $a$ $$; $a$; x", ["do $$begin; end$$", "do $a$ $$; $a$", "x"]),
        ("select a$b$ from t; x", ["select a$b$ from t", "x"]),
        ("execute q($1); x", ["execute q($1)", "x"]),
        ("select 1 -- ; no end\n + 1; x", ["select 1 -- ; no end\n + 1", "x"]),
        ("select /* ; /* ; */ ; */ 1; x", ["select /* ; /* ; */ ; */ 1", "x"]),
        ("select 'open; x", ["select 'open; x"]),
        ("select $a$ open; x", ["select $a$ open; x"]),
    ],
)
def test_semicolons_end_statements_only_outside_of_quotes(text: str, expected: list[str]) -> None:
    assert statements(text) == expected


@pytest.mark.parametrize("text", ["select 1", "$q0$", "a$q0", "$q0$ $q1$", "x$q1 $q0$"])
def test_a_quoted_text_does_not_hold_its_own_end(text: str) -> None:
    tag = quoted(text)[: quoted(text).index("$", 1) + 1]

    assert quoted(text) == f"{tag}{text}{tag}"
    assert f"{text}{tag}".index(tag) == len(text)

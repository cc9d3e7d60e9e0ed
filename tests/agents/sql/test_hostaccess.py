"""Meta-commands with which a script can leave its database are detected wherever pgbench reads them."""

from __future__ import annotations

import pytest

from agents.errors import Unplannable
from agents.sql import hostaccess

REACHING = [
    "\\shell id",
    "select 1; \\shell touch /tmp/x",
    "/* */ \\shell touch /tmp/x",
    "/* a /* nested */ one */\\shell id",
    "select 1\n  \\SetShell x id",
    "\\ shell id",
    "select 'it''s' \\shell id",
    "select E'\\'' \\shell id",
    "select $$ ' $$; \\shell id",
    "select $a$ $b$ $a$; \\shell id",
    "select 1$a$ ' $a$; \\shell id",
    "select a$b$ from t; \\shell id",
    'select "a""b"; \\shell id',
    "-- a comment\n\\shell id",
    "\\set x 1 -- '\n\\shell id",
    "select 1 \\gset\n\\shell id",
    # Before 9.6 a line was a command whatever stood around it.
    "/*\n\\shell id\n*/",
    "copy (select 1) to program 'id'",
    "COPY t FROM\n\tPROGRAM 'id'",
    "copy /* x */ t to -- y\n program 'id'",
    "select 1; copy (select ';') to program $$id$$;",
]
HARMLESS = [
    "select 1;\n\\set x random(1, 10)\nselect :x \\gset",
    "select '\\shell id';",
    "select $$ \\shell id $$;",
    "-- \\shell id",
    'select 1 as "\\shell"',
    "select 'copy t to program x';",
    "/* copy t to program 'id' */ select 1",
    "select shell from programs; copy t (program) from stdin",
    "select 1 \\; select 2;",
]


@pytest.mark.parametrize("text", REACHING)
def test_a_script_that_runs_a_program_is_refused(text: str) -> None:
    with pytest.raises(Unplannable, match="without"):
        hostaccess.check("pgbench.script", text)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_script_that_only_mentions_a_program_is_accepted(text: str) -> None:
    hostaccess.check("pgbench.script", text)


def test_the_refusal_names_line_and_command() -> None:
    with pytest.raises(Unplannable) as refused:
        hostaccess.check("pgbench.scripts", "select 1;\nselect 2; \\shell touch x", "read")

    assert (refused.value.field, refused.value.value) == ("pgbench.scripts", "line 2 of read: \\shell touch x")

"""Finds commands in users' scripts that reach out of the database: shells of pgbench, programs of COPY. Pure.

This allows a clear refusal before anything runs. It is not a protection, because SQL can hide such a command. Only
users who may run commands can supply scripts.
"""

from __future__ import annotations

import re

from ..errors import Unplannable
from .text import bare, meta_commands

_SHELL = re.compile(r"(?:shell|setshell)\b", re.IGNORECASE)
# pgbench before 9.6 knew no comments and no quotes: any line that begins with a backslash was a command.
_OLD_SHELL = re.compile(r"^[ \t]*\\[ \t]*((?:shell|setshell)\b.*)", re.IGNORECASE)
_PROGRAM = re.compile(r"\bcopy\b[^;]*?\b(?:to|from)\s+program\b", re.IGNORECASE)


def check(field: str, text: str, of: str = "") -> None:
    """Unplannable for a script with a command that runs a program on the host; `of` is its name where a field holds
    several."""
    of = f" of {of}" if of else ""
    shells = [(line, command) for line, command in meta_commands(text) if _SHELL.match(command)]
    old = [(number, _OLD_SHELL.match(line)) for number, line in enumerate(text.split("\n"), start=1)]
    shells += [(number, match.group(1)) for number, match in old if match]
    if shells:
        line, command = min(shells)
        accepted = "scripts without \\shell and \\setshell"
        raise Unplannable(field, f"line {line}{of}: \\{command[:80].strip()}", accepted)
    program = _PROGRAM.search(bare(text))
    if program:
        accepted = "SQL without COPY ... PROGRAM"
        raise Unplannable(field, " ".join(program.group().split())[:80], accepted)

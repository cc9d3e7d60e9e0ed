"""Pieces of Markdown."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

CELLS = re.compile(r"(?<!\\)\|")
RELATIVE = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


def cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [" | ".join(head), "|".join("---" for _ in head), *(" | ".join(map(cell, row)) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def code(names: Iterable[object]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def fenced(text: str, language: str = "text") -> str:
    return f"~~~{language}\n{text.rstrip()}\n~~~\n"


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table of a page."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[each.strip().replace("\\|", "|") for each in CELLS.split(line)[1:-1]] for line in lines]


def moved(text: str, page: str, up: str) -> str:
    """A part of docs/`page`, which may be in a folder, for a page elsewhere, from which `up` leads to docs/."""

    def lead(link: re.Match[str]) -> str:
        path, hash_sign, fragment = link[1].partition("#")
        place = posixpath.join(posixpath.dirname(page), path) if path else page
        return f"]({posixpath.normpath(up + place)}{hash_sign}{fragment})"

    return RELATIVE.sub(lead, text)

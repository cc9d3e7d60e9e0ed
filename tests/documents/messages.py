"""Strings of Python and JavaScript sources that users read, for tests/documents/language.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

# Arguments whose strings are texts, however short.
SHOWN = {
    "help",
    "help_text",
    "label",
    "verbose_name",
    "verbose_name_plural",
    "title",
    "placeholder",
    "hint",
    "accepted",
}
_CODE = re.compile(  # SQL and Python in strings
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|SET|GRANT|REVOKE|COPY|EXPLAIN|FROM|WHERE)\b"
    r"|\b(not null|json_agg|json_build_object|json_object_agg|from pg_\w+|insert into|import json)\b"
    r"|create or replace|for update|\$\$"
)
_PLAIN = re.compile(r"[\"'(]?[A-Za-z][a-z'-]*[\"').,:;?!]*|X")
_SCRIPT_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`|\'((?:[^\'\\\n]|\\.)*)\'')


def text_of_python(source: str) -> list[str]:
    """The strings that are sentences or parts of them, and those of SHOWN. A value in an f-string is "X"."""
    tree = ast.parse(source)
    shown = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.keyword) and each.arg in SHOWN}
    return [
        " ".join(text.split())
        for node, text in _strings(tree)
        if is_text(text) or (id(node) in shown and " " in text.strip())
    ]


def text_of_script(source: str) -> list[str]:
    """The strings of a JavaScript file that are sentences or parts of them. A value in a template is "X"."""
    source = re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE)
    strings = (next(text for text in match.groups() if text is not None) for match in _SCRIPT_STRING.finditer(source))
    texts = (re.sub(r"\$\{[^}]*\}", "X", text) for text in strings)
    return [" ".join(text.split()) for text in texts if is_text(text) and "<" not in text]


def is_text(string: str) -> bool:
    """Whether it has three words or more, most of them plain ones, and is not SQL."""
    words = string.split()
    plain = sum(_PLAIN.fullmatch(word) is not None for word in words)
    return len(words) >= 3 and plain >= 0.6 * len(words) and not _CODE.search(string)


def _strings(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Every string that is no docstring and no part of an f-string, with its text."""
    skipped = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)

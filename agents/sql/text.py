"""Just enough of SQL's grammar to find the ends of statements. Pure.

Permission to run SQL is checked elsewhere, and PostgreSQL limits what it can do. If a text is split wrongly, the error
only appears later.
"""

from __future__ import annotations

import re

# Tokens in which a semicolon does not end the statement: comments, strings, quoted names, dollar-quoted bodies.
# Words and numbers are tokens too: a dollar within a word opens no quote, one after a number does.
_TOKEN = re.compile(
    r"--[^\n\r]*"
    r"|(?P<comment>/\*)"
    r"|[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)"
    r"|'(?:[^']|'')*(?:'|\Z)"
    r'|"(?:[^"]|"")*(?:"|\Z)'
    r"|\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?)\$"
    r"|(?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*|[0-9]+)"
    r"|(?P<end>;)"
    r"|(?P<meta>\\[;:]?)",
    re.DOTALL,
)
# The rest of a pgbench command's line, with its continuation lines.
_REST = re.compile(r"[^\n]*(?:(?<=\\)\n[^\n]*|(?<=\\\r)\n[^\n]*)*")
_NOISE = re.compile(r"(?:\s|--[^\n]*(?:\n|$))*")


def statements(text: str) -> list[str]:
    """The statements of a text, without their semicolons and the blanks around them; empty ones are left out."""
    parts, begin, at = [], 0, 0
    while True:
        token = _TOKEN.search(text, at)
        if token is None:
            break
        at = _past(text, token)
        if token["end"]:
            parts.append(text[begin : token.start()])
            begin = at
    parts.append(text[begin:])
    return [each.strip() for each in parts if not _empty(each)]


def bare(text: str) -> str:
    """The text without comments and without the content of strings; a name in quotes becomes an unknown one."""
    parts, begin, at = list[str](), 0, 0
    while True:
        token = _TOKEN.search(text, at)
        if token is None:
            return " ".join([*parts, text[begin:]])
        at = _past(text, token)
        if not (token["end"] or token["word"] or token["meta"]):
            parts += [text[begin : token.start()], _stand_in(token)]
            begin = at


def meta_commands(text: str) -> list[tuple[int, str]]:
    """(line, command with its arguments) of each backslash command, wherever pgbench's lexer finds one."""
    commands, at = list[tuple[int, str]](), 0
    while True:
        token = _TOKEN.search(text, at)
        if token is None:
            return commands
        at = _past(text, token)
        if token["meta"] == "\\":
            rest = _REST.match(text, at)
            at = rest.end() if rest else at
            commands.append((text.count("\n", 0, token.start()) + 1, text[token.end() : at].strip()))


def _stand_in(token: re.Match[str]) -> str:
    if token["comment"] or token.group().startswith("--"):
        return ""
    return "quoted" if token.group().startswith('"') else "''"


def _past(text: str, token: re.Match[str]) -> int:
    """Return the end of the token. An unclosed one extends to the end of the text."""
    if token["comment"]:
        return _past_comment(text, token.end())
    if token["tag"] is not None:
        closing = text.find(f"${token['tag']}$", token.end())
        return len(text) if closing < 0 else closing + len(token["tag"]) + 2
    return token.end()


def _past_comment(text: str, at: int) -> int:
    """Comments nest."""
    depth = 1
    while depth:
        mark = re.compile(r"/\*|\*/").search(text, at)
        if mark is None:
            return len(text)
        depth += 1 if mark.group() == "/*" else -1
        at = mark.end()
    return at


def _empty(statement: str) -> bool:
    """Return whether there is nothing but whitespace and comments."""
    at = 0
    while True:
        noise = _NOISE.match(statement, at)
        at = noise.end() if noise else at
        if not statement.startswith("/*", at):
            return at == len(statement)
        at = _past_comment(statement, at + 2)


def quoted(text: str) -> str:
    """The text between dollars, as a string that neither the server nor psql parses."""
    number = 0
    while f"$q{number}$" in text or text.endswith(f"$q{number}"):
        number += 1
    return f"$q{number}${text}$q{number}$"

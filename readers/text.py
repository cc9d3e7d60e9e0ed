"""What every reader of text output shares: lines out of bytes, and rules for single lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from common.errors import FormatError

# Bounded, so that no digit string exceeds what int() and float() accept; \d would take other scripts' digits too.
INT = r"[0-9]{1,18}"
NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"

_LINE_END = re.compile(r"\r\n|\n|\r")
_SHOWN = 120
LONGEST_LINE = 4 << 20  # bytes; no tool prints one of a tenth of it, and JSON of one line may have a few


def check_text(raw: bytes, where: str) -> None:
    """Raises FormatError, with `where` as its subject, for NUL bytes and for a line much longer than LONGEST_LINE: it
    would be taken apart at great cost and mean nothing."""
    if b"\0" in raw:
        raise FormatError(where, "it holds NUL bytes", hint="it is not text")
    for start in range(0, len(raw), LONGEST_LINE):
        piece = raw[start : start + LONGEST_LINE]
        if len(piece) == LONGEST_LINE and b"\n" not in piece and b"\r" not in piece:
            number = raw.count(b"\n", 0, start) + 1
            where, message = f"{where}, line {number}", f"it is longer than {LONGEST_LINE} bytes"
            raise FormatError(where, message, hint="it is not what a tool prints")


def lines_of(raw: bytes, where: str = "this output") -> list[str]:
    """Lines without their ends; a bare CR ends one too, as on terminals. Bytes that are not UTF-8 are escaped. Raises
    FormatError as `check_text`."""
    check_text(raw, where)
    return _LINE_END.split(raw.decode("utf-8-sig", errors="backslashreplace"))


def shown(line: str) -> str:
    """A line as an error message may carry it: quoted, control characters escaped, cut."""
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


@dataclass(frozen=True)
class Rule:
    """A kind of line: told by its `prefix`, read by `pattern`, whose groups are converted by `types`."""

    prefix: str
    pattern: re.Pattern[str]
    types: dict[str, Callable[[str], Any]]

    def read(self, line: str, where: str) -> dict[str, Any]:
        """The groups that matched. Raises FormatError for a line that begins as ours and goes on otherwise."""
        match = self.pattern.fullmatch(line)
        if match is None:
            raise unreadable(where, line)
        return {name: self.types[name](text) for name, text in match.groupdict().items() if text is not None}


def rule(prefix: str, rest: str, **types: Callable[[str], Any]) -> Rule:
    """A Rule whose pattern is the literal prefix and then the expression `rest`."""
    return Rule(prefix, re.compile(re.escape(prefix) + rest), types)


def rule_for(line: str, rules: tuple[Rule, ...]) -> Rule | None:
    """The first rule whose prefix begins the line."""
    return next((one for one in rules if line.startswith(one.prefix)), None)


LONGEST_SHORT_LINE = 10_000  # characters


def places(raw: bytes, where: str) -> Iterator[tuple[str, str]]:
    """Lines that are not blank, without blanks at their end, each after its place ("numastat, line 3"), of a tool with
    short lines. Raises FormatError as lines_of does, and for a line of more than LONGEST_SHORT_LINE characters."""
    for number, line in enumerate(lines_of(raw, where), 1):
        if len(line) > LONGEST_SHORT_LINE:
            why = f"it has {len(line)} characters"
            raise FormatError(f"{where}, line {number}", why, hint="it is not this tool's output")
        text = line.rstrip()
        if text:
            yield f"{where}, line {number}", text


def whole_lines(raw: bytes, where: str) -> tuple[Iterator[tuple[str, str]], bool]:
    """places(), and whether the last line was cut: without its end it may have lost digits, and is left out."""
    check_text(raw, where)
    end = max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1
    return places(raw[:end], where), bool(raw[end:].strip())


def unreadable(place: str, line: str) -> FormatError:
    """The error for a line that is ours and cannot be read."""
    return FormatError(place, f"cannot read {shown(line)}", hint="the output is cut, edited or of an unknown version")

"""Shared by all readers of text: split bytes into lines, and match single lines by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from common.errors import FormatError

# Limited, so that int() and float() accept every match. \d would also match digits of other scripts.
INT = r"[0-9]{1,18}"
NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"

_SAYS = re.compile(rb"\S")
_LINE_END = re.compile(r"\r\n|\n|\r")
_SHOWN = 120
_PIECE = 1 << 16  # bytes
LONGEST_LINE = 4 << 20  # bytes; a hundred times more than tools print, but JSON in one line can have a few MB


def check_text(raw: bytes, where: str) -> None:
    """Raise FormatError for NUL bytes and for lines longer than LONGEST_LINE; `where` is the subject of its message.
    Parsing them would be expensive and pointless."""
    if b"\0" in raw:
        raise FormatError(where, "the file contains NUL bytes", hint="it is not text")
    for start in range(0, len(raw), LONGEST_LINE):
        end = start + LONGEST_LINE
        if end <= len(raw) and raw.find(b"\n", start, end) < 0 and raw.find(b"\r", start, end) < 0:
            number = raw.count(b"\n", 0, start) + 1
            where, message = f"{where}, line {number}", f"the line is longer than {LONGEST_LINE} bytes"
            raise FormatError(where, message, hint="tools do not print such lines")


def each_line(raw: bytes, where: str = "this output") -> Iterator[str]:
    """Yield lines without their ends, decoding a piece at a time. A bare CR also ends a line, as on terminals; bytes
    that are not UTF-8 are escaped. Raises FormatError as `check_text` does."""
    check_text(raw, where)
    start, encoding = 0, "utf-8-sig"
    while start < len(raw):
        end = _end_of_piece(raw, start)
        lines = _LINE_END.split(_joined_thousands(raw[start:end].decode(encoding, errors="backslashreplace")))
        yield from lines if lines[-1] else lines[:-1]
        start, encoding = end, "utf-8"


def lines_of(raw: bytes, where: str = "this output") -> list[str]:
    """Return all lines of each_line() as a list, for readers that need random access."""
    return list(each_line(raw, where))


def _end_of_piece(raw: bytes, start: int) -> int:
    """Return the end of the piece of complete lines that starts at `start`."""
    at = start + _PIECE
    newline = raw.find(b"\n", at)
    carriage = raw.find(b"\r", at, newline if newline >= 0 else len(raw))
    if carriage >= 0 and newline != carriage + 1:
        return carriage + 1
    return newline + 1 if newline >= 0 else len(raw)


# Some languages separate thousands by a no-break space, which `\s` and split() treat as a space.
_THOUSANDS = re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")


def _joined_thousands(text: str) -> str:
    return text if text.isascii() else _THOUSANDS.sub("", text)


def is_unfinished(raw: bytes) -> bool:
    """Return whether the last line has no newline. It may have lost digits, so its figures are not used."""
    return bool(_SAYS.search(raw, max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1))


def finished(raw: bytes) -> bytes:
    """Return the output without its unfinished last line."""
    return raw[: max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1]


Row = TypeVar("Row")


class Rows(Generic[Row]):
    """Rows of a long output, parsed from its bytes at each iteration, in constant memory."""

    def __init__(self, raw: bytes, read: Callable[[bytes], Iterable[Row]], count: int) -> None:
        """`read` returns the `count` rows of `raw`. It must not raise: the caller has parsed them once before."""
        self._raw, self._read, self._count = raw, read, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        return iter(self._read(self._raw))


def shown(line: str) -> str:
    """Quote a line for an error message: control characters escaped, long lines shortened."""
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


@dataclass(frozen=True)
class Rule:
    """A kind of line: starts with `prefix`, matches `pattern`; `types` convert the groups."""

    prefix: str
    pattern: re.Pattern[str]
    types: dict[str, Callable[[str], Any]]

    def read(self, line: str, where: str) -> dict[str, Any]:
        """Return the groups that matched. Raises FormatError for a line that starts with the prefix but does not
        match."""
        match = self.pattern.fullmatch(line)
        if match is None:
            raise unreadable(where, line)
        return {name: self.types[name](text) for name, text in match.groupdict().items() if text is not None}


def rule(prefix: str, rest: str, **types: Callable[[str], Any]) -> Rule:
    """Return a Rule whose pattern is the literal prefix, then the expression `rest`."""
    return Rule(prefix, re.compile(re.escape(prefix) + rest), types)


def rule_for(line: str, rules: tuple[Rule, ...]) -> Rule | None:
    """Return the first rule whose prefix starts the line."""
    return next((one for one in rules if line.startswith(one.prefix)), None)


LONGEST_SHORT_LINE = 10_000  # characters


def numbered_lines(raw: bytes, where: str) -> Iterator[tuple[str, str]]:
    """Yield (place, line) for each line that is not blank; a place is "numastat, line 3". For tools with short lines.

    Raises FormatError as lines_of does, and for a line with more than LONGEST_SHORT_LINE characters."""
    for number, line in enumerate(each_line(raw, where), 1):
        if len(line) > LONGEST_SHORT_LINE:
            why = f"the value has {len(line)} characters"
            raise FormatError(f"{where}, line {number}", why, hint="it is not this tool's output")
        text = line.rstrip()
        if text:
            yield f"{where}, line {number}", text


def whole_lines(raw: bytes, where: str) -> tuple[Iterator[tuple[str, str]], bool]:
    """Return the lines as numbered by `numbered_lines`, and whether the last one was incomplete. An incomplete line may
    have lost digits and is left out."""
    check_text(raw, where)
    return numbered_lines(finished(raw), where), is_unfinished(raw)


def unreadable(place: str, line: str) -> FormatError:
    """Return the error for a line that starts as expected but cannot be read."""
    return FormatError(place, f"cannot read {shown(line)}", hint="the output is cut, edited or of an unknown version")

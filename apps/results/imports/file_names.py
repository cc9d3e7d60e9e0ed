"""Parse levels from file names: `{policy}-{n}.out` reads "interleave-2.out" as policy interleave, repetition 2.
Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from common.errors import PlanError

# Fields of a pattern or columns of a manifest that are not factors.
BLOCK = ("n", "block", "repetition")
STEP, HOST, PROFILE, IGNORED = "step", "host", "profile", "_"
_FIELD = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]{0,39}")
_COUNTED = re.compile(r"(?P<level>.+?)(?P<between>[-_.])(?P<n>[0-9]{1,6})")
LONGEST = 200
HINT = "for example {policy}-{n}.out: each field is a factor, {n} the repetition, {step} the step, * any text"


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern. `literals` surround the `fields`, so there is one more of them."""

    text: str
    literals: tuple[str, ...]
    fields: tuple[str, ...]

    def read(self, path: str) -> dict[str, str] | None:
        """Return field -> text for a matching path. A pattern without / applies to the last part of the path.

        Split from the right in one pass: names of levels contain dashes more often than numbers do, and no name can
        make this slow."""
        rest = path if "/" in self.text else PurePosixPath(path).name
        first, *between, last = self.literals
        if not rest.endswith(last) or not rest.startswith(first):
            return None
        rest = rest[len(first) : len(rest) - len(last)]
        values: list[str] = []
        for literal in reversed(between):
            rest, separator, value = rest.rpartition(literal)
            if not separator:
                return None
            values.insert(0, value)
        values.insert(0, rest)
        if not all(values) or any("/" in value for value in values):
            return None
        return {field: value for field, value in zip(self.fields, values, strict=True) if field != IGNORED}


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. PlanError at `pattern` for fields that cannot be distinguished."""
    if len(text) > LONGEST:
        raise PlanError("pattern", f"longer than {LONGEST} characters", hint=HINT)
    parts = _FIELD.split(text.replace("*", f"{{{IGNORED}}}"))
    literals, fields = parts[0::2], parts[1::2]
    for field in fields:
        if not _NAME.fullmatch(field):
            raise PlanError("pattern", f"{{{field}}} is not a valid field", hint=HINT)
        if field != IGNORED and fields.count(field) > 1:
            raise PlanError("pattern", f"{{{field}}} appears twice", hint=HINT)
    if not fields or any(brace in literal for literal in literals for brace in "{}"):
        raise PlanError("pattern", f"{text!r} has no field in braces", hint=HINT)
    if not all(literals[1:-1]):
        raise PlanError("pattern", "two fields need some text between them", hint=HINT)
    return Pattern(text, tuple(literals), tuple(fields))


def guess_pattern(paths: Sequence[str]) -> str:
    """Return `{level}-{n}.out` if all names end in a number and some only differ in it, else ""."""
    names = [PurePosixPath(path) for path in paths]
    counted = [_COUNTED.fullmatch(name.stem) for name in names]
    shapes = {(match["between"], name.suffix) for match, name in zip(counted, names, strict=True) if match}
    if not all(counted) or len(shapes) != 1 or len({str(name.parent) for name in names}) > 1:
        return ""
    repeated = Counter(match["level"] for match in counted if match)
    (between, suffix), *_ = shapes
    return f"{{level}}{between}{{n}}{suffix}" if max(repeated.values()) > 1 else ""

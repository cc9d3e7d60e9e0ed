"""Shapes of JSON from hosts: a type and a size for each value. Pure.

A shape is a function from a value to a description of its error, "" if it is valid. Values are made storable first,
so a shape never gets NUL, NaN, infinity, or an integer that PostgreSQL cannot store."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Any], str]

MAX_INTEGER = 2**31 - 1  # of PostgreSQL's integer
MAX_BIGINT = 2**63 - 1
MAX_WALL_S = 32_503_680_000  # the year 3000
MAX_DEPTH = 40
MAX_VALUES = 200_000  # the facts of the largest machines have some 20,000
MAX_TEXT = 65_536
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def plain(text: str) -> str:
    """Return the text without what PostgreSQL refuses: NUL and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def storable(value: Any) -> Any:
    """Return the JSON in a form that jsonb accepts: texts are cut to MAX_TEXT characters; NaN, infinity and integers
    beyond 64 bits become null.

    ValueError for more than MAX_VALUES values, or for a depth of more than MAX_DEPTH."""
    left = MAX_VALUES

    def clean(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_VALUES} values, or deeper than {MAX_DEPTH}")
        if isinstance(value, str):
            short = value[:MAX_TEXT]
            return short if short.isascii() and "\0" not in short else plain(short)  # most texts: no regex is needed
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, int):
            return value if abs(value) <= MAX_BIGINT else None
        if isinstance(value, list):
            return [clean(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {clean(name, depth): clean(each, depth + 1) for name, each in value.items()}
        return value

    return clean(value, 0)


def _shown(value: Any) -> str:
    return f"{value!r:.60}" if isinstance(value, str | int | float | bool | None) else type(value).__name__


def text(most: int = MAX_TEXT, pattern: str = "") -> Shape:
    compiled = re.compile(pattern, re.DOTALL)

    def problem_of(value: Any) -> str:
        if not isinstance(value, str) or len(value) > most:
            return f"{_shown(value)} is not text of at most {most} characters"
        return "" if not pattern or compiled.fullmatch(value) else f"{_shown(value)} does not match {pattern}"

    return problem_of


def word(*choices: str) -> Shape:
    def problem_of(value: Any) -> str:
        return (
            "" if isinstance(value, str) and value in choices else f"{_shown(value)} is not one of {', '.join(choices)}"
        )

    return problem_of


def whole(low: int = 0, most: int = MAX_BIGINT) -> Shape:
    def problem_of(value: Any) -> str:
        fine = isinstance(value, int) and not isinstance(value, bool) and low <= value <= most
        return "" if fine else f"{_shown(value)} is not an integer from {low} to {most}"

    return problem_of


def number(low: float = -1e300, most: float = 1e300) -> Shape:
    def problem_of(value: Any) -> str:
        fine = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= most
        return "" if fine else f"{_shown(value)} is not a number from {low:g} to {most:g}"

    return problem_of


def truth(value: Any) -> str:
    return "" if isinstance(value, bool) else f"{_shown(value)} is neither true nor false"


def anything(value: Any) -> str:
    """Accept everything, for values that only users read; `storable` limits their size."""
    return ""


def maybe(shape: Shape) -> Shape:
    """Return a shape that also accepts null."""
    return lambda value: "" if value is None else shape(value)


def many(shape: Shape, most: int) -> Shape:
    def problem_of(value: Any) -> str:
        if not isinstance(value, list) or len(value) > most:
            return (
                f"{len(value):,} entries, at most {most:,}"
                if isinstance(value, list)
                else f"{_shown(value)} is not a list"
            )
        return next((f"[{place}]: {wrong}" for place, each in enumerate(value) if (wrong := shape(each))), "")

    return problem_of


def table(shape: Shape, most: int, name: int = 200) -> Shape:
    """Return the shape of an object with arbitrary names: at most `most`, of at most `name` characters each."""

    def problem_of(value: Any) -> str:
        if not isinstance(value, dict) or len(value) > most:
            return (
                f"{len(value):,} names, at most {most:,}"
                if isinstance(value, dict)
                else f"{_shown(value)} is not an object"
            )
        if any(len(each) > name for each in value):
            return f"a name has more than {name} characters"
        return next((f"{key:.60}: {wrong}" for key, each in value.items() if (wrong := shape(each))), "")

    return problem_of


def record(needed: Mapping[str, Shape], known: Mapping[str, Shape] | None = None, *, closed: bool = False) -> Shape:
    """Return the shape of an object with all of `needed`, optionally `known`, and others unless it is `closed`."""
    shapes = {**needed, **(known or {})}

    def problem_of(value: Any) -> str:
        if not isinstance(value, dict):
            return f"{_shown(value)} is not an object"
        if missing := [name for name in needed if name not in value]:
            return f"{missing[0]} is missing"
        if closed and (others := value.keys() - shapes.keys()):
            return f"{min(others):.60} is not known"
        wrong = ((name, shape(value[name])) for name, shape in shapes.items() if name in value)
        return next((f"{name}: {problem}" for name, problem in wrong if problem), "")

    return problem_of


STEP = text(40)
WALL = number(0, MAX_WALL_S)
UUID = text(36, "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
FAILURE = record(
    {"message": text()},
    {
        "blame": text(20),
        "hint": text(),
        "subject": text(),
        "setting": maybe(text(200)),
        "unproven": maybe(many(text(), 1000)),
    },
)

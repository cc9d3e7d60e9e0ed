"""Checked values of an untrusted JSON file: each has a type and a limit. A missing or unknown field is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Read = Callable[[Any], Any]
MOST_VALUES = 10_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # by PostgreSQL


class ShapeError(Exception):
    """A value that is not accepted: its field, and what is accepted."""


def record(value: Any, shape: Mapping[str, Read]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(shape):
        raise ShapeError(f": the fields {', '.join(shape)} are accepted")
    fields = {}
    for name, read in shape.items():
        try:
            fields[name] = read(value[name])
        except ShapeError as error:
            raise ShapeError(f".{name}{error.args[0]}") from error
    return fields


def text(most: int, least: int = 0) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not least <= len(value) <= most or _UNSTORABLE.search(value):
            raise ShapeError(f": a text of {least} to {most} characters is accepted")
        return value

    return read


def number(least: float = 0.0, most: float = 1e18) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ShapeError(f": a number from {least:g} to {most:g} is accepted")
        return float(value)

    return read


def whole(value: Any) -> int:
    return int(number()(value))


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ShapeError(": true or false is accepted")
    return value


def one_of(*accepted: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in accepted or not isinstance(value, str):
            raise ShapeError(f": one of {', '.join(map(repr, accepted))} is accepted")
        return value

    return read


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else read(value)


def several(read: Callable[[Any], T], most: int = MOST_VALUES) -> Callable[[Any], tuple[T, ...]]:
    def read_all(value: Any) -> tuple[T, ...]:
        values = [] if value is None else value
        if not isinstance(values, list) or len(values) > most:
            raise ShapeError(f": a list of at most {most:,} values is accepted")
        return tuple(read(each) for each in values)

    return read_all

"""The result of an audit, without anything that the tests need: the server can import it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Found:
    """What an audit of runs that ended came to."""

    runs: int = 0
    lost: int = 0
    duplicated: int = 0
    overlapping: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Found)))

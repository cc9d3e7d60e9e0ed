"""What changed between two revisions of a host's facts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """One path that the two say differently; None where one says nothing."""

    path: str
    before: Any
    after: Any


def between(before: Any, after: Any, prefix: str = "") -> list[Change]:
    """Every leaf that differs, lists by place, such as postgresql.0.version."""
    if before == after:
        return []
    old, new = _children(before), _children(after)
    if old is None or new is None:
        return [Change(prefix.rstrip("."), before, after)]
    return [
        change
        for key in sorted(old.keys() | new.keys())
        for change in between(old.get(key), new.get(key), f"{prefix}{key}.")
    ]


def _children(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return {str(key): inner for key, inner in value.items()}
    if isinstance(value, list):
        return {str(place): inner for place, inner in enumerate(value)}
    return None

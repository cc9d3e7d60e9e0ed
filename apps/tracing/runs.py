"""The trace of a run. Its ID is the UUID of the run, so the page of a run leads to its trace. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

RUN = "proving.run"  # the attribute with the run's UUID
Value = str | int | float | bool


@dataclass(frozen=True)
class Interval:
    """A span with its times in seconds since 1970."""

    name: str
    began: float
    ended: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    has_failed: bool = False


@dataclass(frozen=True)
class RunTrace:
    """The span of a run, and those of its phases."""

    run: UUID
    whole: Interval
    phases: Sequence[Interval]


def trace_id(run: UUID) -> int:
    return run.int


def root_id(run: UUID) -> int:
    """Return the ID of the run's own span: the last 64 bits of its UUID. Spans that are sent before the run has ended
    name it as their parent."""
    return run.int & (1 << 64) - 1

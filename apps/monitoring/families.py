"""Families of metrics: a name, a help text, and values by labels.

/metrics writes them in Prometheus' text format, and metric_push.py converts the same families to OTLP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

Labels = tuple[tuple[str, str], ...]  # names and values


@dataclass(frozen=True)
class Gauge:
    """A gauge with its values by labels."""

    name: str
    help: str
    values: dict[Labels, float] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield from _head(self, "gauge")
        for labels, value in self.values.items():
            yield f"{self.name}{_written(labels)} {value:.17g}"


@dataclass(frozen=True)
class Counted:
    """Observations with the same labels: their number in each bucket, and their sum. The last bucket has no bound."""

    counts: list[int]
    sum: float


@dataclass(frozen=True)
class Histogram:
    """A histogram with upper bounds of its buckets, and what was counted by labels since `began_ns` (nanoseconds since
    1970; 0 if unknown)."""

    name: str
    help: str
    bounds: tuple[float, ...]
    values: dict[Labels, Counted]
    began_ns: int = 0

    def lines(self) -> Iterator[str]:
        """Yield its lines, with cumulative buckets."""
        yield from _head(self, "histogram")
        for labels, counted in self.values.items():
            for bound, count in zip((*map(str, self.bounds), "+Inf"), accumulate(counted.counts), strict=True):
                yield f"{self.name}_bucket{_written((*labels, ('le', bound)))} {count}"
            yield f"{self.name}_sum{_written(labels)} {counted.sum:.17g}"
            yield f"{self.name}_count{_written(labels)} {sum(counted.counts)}"


Family = Gauge | Histogram


def _head(family: Family, kind: str) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {kind}"


def _written(labels: Labels) -> str:
    text = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{text}}}" if text else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

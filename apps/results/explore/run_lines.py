"""The runs of the explorer as lines of a CSV file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.results.explore.explorer import Explored

HEAD = ("run", "host", "block", "position")


def rows(explored: Explored) -> Iterable[list[Any]]:
    """Yield a line for each run that is shown, for head()."""
    for run in sorted(explored.runs, key=lambda one: one.position):
        yield [str(run.run), run.host, run.block + 1, run.position + 1, *run.cell.values(), run.value]


def head(explored: Explored) -> list[str]:
    names = list(explored.runs[0].cell) if explored.runs else []
    return [*HEAD, *names, explored.quantity]

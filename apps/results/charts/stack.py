"""Stacked areas: the parts of a whole, such as the events that backends wait for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.results.charts.themes import Figure, Theme
from apps.results.runs import thin
from apps.results.store.samples import Column
from apps.results.store.series import Panel

MOST_AREAS = 6  # the last one adds up the rest
MOST_POINTS = 1000
PREFIX = "wait."  # of names, which the title of the panel already has


def parts(lines: Sequence[Column]) -> tuple[list[Column], list[Column]]:
    """Return the largest parts by mean, largest first, and the rest. A single remaining part is not a rest."""
    by_size = sorted(lines, key=lambda line: -float(np.nansum(line.values)))
    most = MOST_AREAS if len(by_size) <= MOST_AREAS else MOST_AREAS - 1
    return by_size[:most], by_size[most:]


def key_of(panel: Panel) -> str:
    """Return the key of the area that adds up the rest and has no column."""
    return f"{panel.source} {panel.group}: others"


def names(lines: Sequence[Column]) -> list[str]:
    """The names in the legend."""
    largest, rest = parts(lines)
    return [*(line.name.removeprefix(PREFIX) for line in largest), *([_others(rest)] if rest else [])]


def areas(panel: Panel, lines: Sequence[Column], axis: str, legend: str, theme: Theme) -> list[Figure]:
    """Return a trace for each area, all with the same times. A missing number is 0 unless all are missing."""
    largest, rest = parts(lines)
    t, rows = _aligned([*largest, *rest])
    taken = ~np.isnan(rows).all(axis=0)
    whole = np.where(np.isnan(rows), 0.0, rows)
    values = [*whole[: len(largest)], *([whole[len(largest) :].sum(axis=0)] if rest else [])]
    metas = [*(f"{line.source} {line.name}" for line in largest), *([key_of(panel)] if rest else [])]
    times = thin.begins(t, MOST_POINTS)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": axis,
            "name": name,
            "meta": meta,
            "x": times,
            "y": thin.means(np.where(taken, each, np.nan), MOST_POINTS).astype(np.float32),
            "yaxis": axis,
            "legend": legend,
            "line": {"color": theme.series[place], "width": 1},
            "fillpattern": {"shape": _SHAPES[place], "size": 6, "solidity": 0.25, "fillmode": "overlay"},
            "hovertemplate": f"%{{y:,.3g}} {panel.unit}<extra>{name}</extra>",
        }
        for place, (name, meta, each) in enumerate(zip(names(lines), metas, values, strict=True))
    ]


# In addition to colours, for readers who cannot distinguish them.
_SHAPES = ("", "/", ".", "x", "-", "\\")


def _aligned(lines: Sequence[Column]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all times, and a row of values for each line: an event of a later step has no sample in the first."""
    t = np.unique(np.concatenate([line.t for line in lines]))
    rows = np.full((len(lines), len(t)), np.nan)
    for row, line in zip(rows, lines, strict=True):
        row[np.searchsorted(t, line.t)] = line.values
    return t, rows


def _others(rest: Sequence[Column]) -> str:
    return f"{len(rest)} others"

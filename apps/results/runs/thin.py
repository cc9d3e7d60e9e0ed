"""Reduce the points of a chart without losing spikes and gaps. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A gap is a distance of at least this many usual intervals.
GAP = 3.5


def holes(t: Floats) -> NDArray[np.intp]:
    """Return the indexes before which no samples were taken for a while."""
    if len(t) < 3:
        return np.empty(0, dtype=np.intp)
    apart = np.diff(t)
    return np.flatnonzero(apart > GAP * np.median(apart)) + 1


def edges(last: Floats, first: Floats) -> tuple[Floats, Floats]:
    """Return where the gaps before these indexes start and end: both edges need a missing sample, or a heat map
    would extend its last colours."""
    margin = np.minimum(0.5, (first - last) / 3)
    return last + margin, first - margin


def extremes(values: Floats, most: int) -> NDArray[np.intp]:
    """Return about `most` indexes, in order: of each segment the smallest, the largest and a missing value."""
    if len(values) <= most:
        return np.arange(len(values))
    stretches = _stretches(values, max(1, most // 2))
    missing = np.isnan(stretches)
    begins = np.arange(len(stretches)) * stretches.shape[1]
    lowest = np.where(missing, np.inf, stretches).argmin(axis=1) + begins
    highest = np.where(missing, -np.inf, stretches).argmax(axis=1) + begins
    gaps = (missing.argmax(axis=1) + begins)[missing.any(axis=1)]
    positions = np.unique(np.concatenate([lowest, highest, gaps, [0, len(values) - 1]]))
    return positions[positions < len(values)]


def peaks(values: Floats, most: int) -> Floats:
    """Return the largest value of each of about `most` segments; nan if all values of a segment are missing."""
    return values if len(values) <= most else np.fmax.reduce(_stretches(values, most), axis=1)


def means(values: Floats, most: int) -> Floats:
    """Return the mean of each of about `most` segments; nan if all values of a segment are missing."""
    if len(values) <= most:
        return values
    stretches = _stretches(values, most)
    there = np.count_nonzero(~np.isnan(stretches), axis=1)
    return np.where(there, np.nansum(stretches, axis=1) / np.maximum(there, 1), np.nan)


def begins(t: Floats, most: int) -> Floats:
    """Return where the segments of `peaks` and of `means` start."""
    return t if len(t) <= most else t[:: _width(len(t), most)].copy()


def _stretches(values: Floats, count: int) -> Floats:
    """Return an array of shape (segments, values of one); the last segment is padded with nan."""
    width = _width(len(values), count)
    filled = np.full(-(-len(values) // width) * width, np.nan)
    filled[: len(values)] = values
    return filled.reshape(-1, width)


def _width(samples: int, count: int) -> int:
    return -(-samples // count)

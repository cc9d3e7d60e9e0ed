"""Charts that fit the design of a campaign; the first one answers its question. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.results.explore.explorer import ORDER
from apps.results.explore.level_numbers import numeric

LEVELS, DIFFERENCES = "levels", "differences"


@dataclass(frozen=True)
class DesignChart:
    """One tab above a campaign's chart. `key`: its value in the URL. `view`: the query of the explorer; {} if the
    campaign draws it itself."""

    key: str
    title: str
    view: dict[str, str]


def charts_of(factors: Sequence[dict[str, Any]]) -> list[DesignChart]:
    """Return the charts for these factors, each {"name", "levels": [{"label"}, ...]}.

    A curve over a numeric factor, lines and a heat map of two factors, facets of three or more; then all runs,
    differences and time order."""
    varied = {
        factor["name"]: [level["label"] for level in factor["levels"]]
        for factor in factors
        if len(factor["levels"]) > 1
    }
    runs = DesignChart(LEVELS, "All runs" if len(varied) > 1 else "Levels", {})
    others = [DesignChart(DIFFERENCES, "Differences", {}), DesignChart("time", "Over time", {"x": ORDER})]
    # A numeric factor is the better axis, then the one with more levels.
    names = sorted(varied, key=lambda name: (numeric(varied[name]) is None, -len(varied[name])))
    if not names:
        return [runs, others[-1]]
    if len(names) == 1:
        curve = DesignChart("curve", "Curve", {"x": names[0], "shape": "lines"})
        return [curve, runs, *others] if numeric(varied[names[0]]) else [runs, *others]
    axes = {"x": names[0], "colour": names[1], "facet": names[2] if len(names) > 2 else ""}
    lines = DesignChart("interaction", "Interaction", {**axes, "shape": "lines"})
    return [lines, DesignChart("heat", "Heat map", {**axes, "shape": "heat"}), runs, *others]

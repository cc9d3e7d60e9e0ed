"""A chart claims no more than the table: no whisker where there is no interval."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import plotly.graph_objects as go

from apps.results import charts
from apps.results.queries import CampaignTable, LevelRow, Point


def level(label: str, *values: float, low: float | None = None, high: float | None = None) -> LevelRow:
    points = [Point(uuid4(), block, block, value) for block, value in enumerate(values)]
    return LevelRow(label, points, len(points), {"ok": len(points)}, mean=values[0], low=low, high=high)


def table(*levels: LevelRow) -> CampaignTable:
    names = {"metric": "tps", "unit": "tps", "better": "higher", "definition": "", "factor_names": "cpus"}
    return CampaignTable(**names, delta=0.02, baseline="a", levels=list(levels), sentence="", method="", drift=None)


def test_a_level_with_too_few_runs_has_no_whisker() -> None:
    figure = charts.level_chart(table(level("a", 100.0), level("b", 200.0, 202.0, low=190.0, high=212.0)), charts.LIGHT)

    means = {trace["name"]: trace for trace in figure["data"] if trace["name"].startswith("geometric mean")}
    bare = means["geometric mean, too few runs for an interval"]
    bounded = means["geometric mean, 95 % interval"]
    assert (bare["y"], "error_y" in bare) == ([100.0], False)
    assert (bounded["error_y"]["array"], bounded["error_y"]["arrayminus"]) == ([12.0], [10.0])


def test_runs_of_several_hosts_are_told_apart_by_place_colour_and_symbol() -> None:
    both = level("a", 100.0, 200.0)
    both.points[:] = [replace(point, host=f"rack-{n}") for n, point in enumerate(both.points, 1)]

    one, other, means = charts.level_chart(table(both), charts.LIGHT)["data"]

    assert [one["name"], other["name"]] == ["one run on rack-1", "one run on rack-2"]
    assert (one["y"], other["y"]) == ([100.0], [200.0]) and one["x"] < other["x"]
    assert len({trace["marker"]["color"] for trace in (one, other, means)}) == 3
    assert one["marker"]["symbol"] != other["marker"]["symbol"]


def test_the_figure_is_one_that_plotly_accepts() -> None:
    figure = charts.level_chart(table(level("a", 100.0), level("b", 200.0, low=190.0, high=212.0)), charts.DARK)

    assert len(go.Figure(figure).data) == 3

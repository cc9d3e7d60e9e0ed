"""Charts show no more than the table: no error bar without an interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import plotly.graph_objects as go
import pytest

from apps.results import charts
from apps.results.answers.table import CampaignTable, LevelRow, Mode, Point
from apps.results.charts import shades
from apps.results.charts.boxes import Box, box_of
from apps.results.charts.themes import LOGARITHMIC, origin_note
from apps.results.models import StepStability
from apps.results.runs.latencies import StatementLatency
from apps.results.runs.time_axis import Axis, Step
from apps.results.store.samples import Column
from apps.results.store.series import Panel


def level(label: str, *values: float, low: float | None = None, high: float | None = None) -> LevelRow:
    points = [Point(uuid4(), block, block, value) for block, value in enumerate(values)]
    return LevelRow(label, points, len(points), {"ok": len(points)}, mean=values[0], low=low, high=high)


def table(*levels: LevelRow) -> CampaignTable:
    names = {"metric": "tps", "unit": "tps", "better": "higher", "definition": "", "factor_names": "cpus"}
    return CampaignTable(**names, delta=0.02, baseline="a", levels=list(levels), sentence="", method="", drift=None)


def test_a_level_with_too_few_runs_has_no_whisker() -> None:
    figure = charts.level_chart(table(level("a", 100.0), level("b", 200.0, 202.0, low=190.0, high=212.0)), charts.LIGHT)

    means = {trace["name"]: trace for trace in figure["data"] if trace["name"].startswith("geometric mean")}
    bare = means["geometric mean; too few runs for a CI"]
    bounded = means["geometric mean, 95 % CI"]
    assert (bare["y"], "error_y" in bare) == ([100.0], False)
    assert (bounded["error_y"]["array"], bounded["error_y"]["arrayminus"]) == ([12.0], [10.0])


def test_both_modes_of_a_level_are_marked() -> None:
    two = replace(level("b", 90.0, 91.0, 100.0, 101.0), modes=[Mode(90.5, 2), Mode(100.5, 2)])

    drawn = charts.level_chart(table(level("a", 100.0, 101.0), two), charts.LIGHT)["data"]

    (marks,) = [trace for trace in drawn if trace["name"] == "mean of one of two modes"]
    assert (marks["x"], marks["y"]) == ([0.88, 0.88], [90.5, 100.5])
    assert marks["customdata"] == [["lower", "2 runs"], ["upper", "2 runs"]]


def test_a_single_run_is_drawn_on_an_axis_from_0_that_holds_it() -> None:
    lone = level("a", 1014.2122319999998581)
    rounded = replace(lone, mean=1014.2122319999999)  # exp(log(x)) is not quite x

    drawn = charts.level_chart(table(rounded), charts.LIGHT)["layout"]

    low, high = drawn["yaxis"]["range"]
    assert low == 0 and high == pytest.approx(1.15 * 1014.21, rel=1e-3)
    assert "does not start at 0" not in drawn["xaxis"]["title"]["text"]


@pytest.mark.parametrize(("narrow", "name"), [(False, "clients=8, pool=1GB"), (True, "8, 1GB")])
def test_levels_have_short_names_on_a_narrow_page(narrow: bool, name: str) -> None:
    compared = {"relative_percent": 1.0, "relative_low": 0.5, "relative_high": 1.5, "verdict": "better"}
    named = replace(level("8, 1GB, 3", 100.0), name="clients=8, pool=1GB", **compared)

    drawn = charts.level_chart(table(named), charts.LIGHT, narrow)["layout"]
    differences = charts.difference_chart(table(named), charts.LIGHT, narrow)["layout"]

    assert drawn["xaxis"]["ticktext"] == [name.replace(", ", "<br>")]
    assert differences["yaxis"]["ticktext"] == [name]


@pytest.mark.parametrize(
    ("count", "text"), [(3, "clients=8<br>pool=1GB"), (12, "8<br>1GB"), (13, "8, 1GB")], ids=["few", "more", "many"]
)
def test_labels_of_two_factors_are_upright_while_they_fit_below_their_levels(count: int, text: str) -> None:
    named = replace(level("8, 1GB", 100.0), name="clients=8, pool=1GB")

    axis = charts.level_chart(table(*[named] * count), charts.LIGHT)["layout"]["xaxis"]

    assert axis["ticktext"] == [text] * count
    assert axis.get("tickangle") == (0 if count <= 12 else None)


def test_runs_that_differ_leave_the_axis_to_plotly() -> None:
    drawn = charts.level_chart(table(level("a", 100.0, 101.0)), charts.LIGHT)["layout"]

    assert "range" not in drawn["yaxis"]


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_cell_of_a_dark_heat_map_contrasts_with_the_page() -> None:
    paper = luminance(charts.DARK.paper)

    contrasts = [(luminance(colour) + 0.05) / (paper + 0.05) for _, colour in charts.DARK.heat]

    assert min(contrasts) >= 3 and contrasts == sorted(contrasts)


def test_runs_of_several_hosts_differ_in_place_colour_and_symbol() -> None:
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


def test_a_band_around_the_baseline_shows_the_noise_floor() -> None:
    floor = replace(table(level("a", 100.0), level("b", 200.0)), noise_floor_percent=2.0)

    drawn = charts.level_chart(floor, charts.LIGHT)["layout"]

    (band,) = drawn["shapes"]
    assert (band["y0"], band["y1"]) == (pytest.approx(100 / 1.02), pytest.approx(102))
    assert "noise floor, ±2 % around the baseline" in drawn["xaxis"]["title"]["text"]


def test_a_noise_floor_that_is_only_rounding_is_called_so() -> None:
    floor = replace(table(level("a", 100.0), level("b", 200.0)), noise_floor_percent=9.9e-14)

    title = charts.level_chart(floor, charts.LIGHT)["layout"]["xaxis"]["title"]["text"]

    assert "noise floor, below ±0.01 % around the baseline" in title


def test_a_logarithmic_axis_has_whole_labels() -> None:
    labels = dict(zip(LOGARITHMIC["tickvals"], LOGARITHMIC["ticktext"], strict=True))

    assert [labels[value] for value in (0.00001, 0.05, 0.2, 1.0, 2000.0)] == ["0.00001", "0.05", "0.2", "1", "2,000"]


def test_warm_up_and_stalls_are_shaded_in_the_time_of_their_step() -> None:
    axis = Axis((Step("load", "prepare", 0.0, 50.0), Step("oltp", "measure", 60.0, 180.0)))
    row = StepStability(step="oltp", data={"warm_up_s": 20.0, "stalls": [[40.0, 43.0]]})

    drawn = shades.within_run([row, StepStability(step="elsewhere", data={"warm_up_s": 5.0})], axis, charts.LIGHT)

    assert [(each["x0"], each["x1"]) for each in drawn["shapes"]] == [(60.0, 80.0), (100.0, 103.0)]
    assert [each["text"] for each in drawn["annotations"]] == ["warm-up", "stall"]


def test_a_box_has_its_quartiles_and_whiskers_to_the_last_values_that_are_not_far_out() -> None:
    box = box_of([1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 9.0, 30.0])

    assert box == Box(q1=3.0, median=5.0, q3=8.0, lowerfence=1.0, upperfence=9.0)
    assert [box.holds(value) for value in (0.9, 1.0, 9.0, 30.0)] == [False, True, True, False]


def test_a_box_of_equal_values_is_a_line() -> None:
    assert box_of([2.0] * 9) == Box(2.0, 2.0, 2.0, 2.0, 2.0)


def many(label: str, count: int, *odd: float) -> LevelRow:
    return level(label, *(100.0 + place % 10 for place in range(count)), *odd)


def test_of_very_many_runs_all_are_in_boxes_and_only_those_beyond_them_are_points() -> None:
    figure = charts.level_chart(table(many("a", 1500, 50.0, 180.0), many("b", 700), level("c", 1.0, 2.0)), charts.LIGHT)

    box, points = figure["data"][0], figure["data"][1]
    assert (box["type"], len(box["x"])) == ("box", 2)
    assert (box["median"], box["lowerfence"], box["upperfence"]) == ([104.5, 104.5], [100.0, 100.0], [109.0, 109.0])
    assert sorted(points["y"]) == [1.0, 2.0, 50.0, 180.0]
    assert "boxes: all 2204 runs" in figure["layout"]["xaxis"]["title"]["text"]
    go.Figure(figure)


def test_points_beyond_the_boxes_are_thinned_only_where_the_chart_says_so() -> None:
    odd = [1000.0 + place for place in range(2500)]
    figure = charts.level_chart(table(many("a", 9000, *odd)), charts.DARK)

    assert len(figure["data"][1]["y"]) <= 2000
    assert "1 of every 2 of 2500" in figure["layout"]["xaxis"]["title"]["text"]


def test_runs_are_points_while_they_can_be_distinguished() -> None:
    figure = charts.level_chart(table(many("a", 1000), many("b", 1000)), charts.LIGHT)

    assert [trace["type"] for trace in figure["data"]] == ["scatter", "scatter"]
    assert len(figure["data"][0]["y"]) == 2000


def test_only_an_axis_that_leaves_out_zero_says_so() -> None:
    far, near = ({"y": [9800.0, 10300.0]}, {"y": [0.4, 9.0]})

    assert origin_note([far]) == "The axis does not start at 0"
    assert origin_note([near]) == ""
    assert origin_note([]) == ""


def test_an_axis_that_its_error_bars_stretch_to_0_has_no_note_that_it_leaves_out_0() -> None:
    wide = {"y": [9800, 14450], "error_y": {"array": [90000, 130000], "arrayminus": [9000, 13000]}}

    assert origin_note([wide]) == ""


WAITS = ("running", "IO:DataFileRead", "IO:DataFileWrite", "LWLock:WALWrite", "Lock:transactionid", "Client:ClientRead")


def waits(width: int) -> charts.Figure:
    second = np.arange(5.0)
    return stacked(dict.fromkeys(WAITS, (second, second)), width)


def stacked(waits: dict[str, tuple[Any, Any]], width: int = 1200) -> charts.Figure:
    """Event -> times and how many backends wait for it then."""
    panel = Panel("postgresql.wait events", "postgresql", "wait events", "backends", True, False, stacked=True)
    columns = [
        Column("postgresql", f"wait.{name}", "backends", panel, np.array(t), np.array(values))
        for name, (t, values) in waits.items()
    ]
    return charts.run_chart([panel], columns, [], Axis(()), charts.LIGHT, width)


def test_areas_on_top_of_each_other_have_the_same_times_and_the_smallest_are_added_up() -> None:
    waits = {f"IO:{place}": ([0.0, 1.0, 2.0], [19.0 - place, 19.0 - place, float("nan")]) for place in range(7)}
    waits["Lock:late"] = ([2.0, 3.0], [90.0, float("nan")])

    figure = stacked(waits)

    areas = {trace["name"]: trace for trace in figure["data"]}
    assert list(areas) == ["Lock:late", "IO:0", "IO:1", "IO:2", "IO:3", "3 others"]
    assert {tuple(area["x"]) for area in areas.values()} == {(0.0, 1.0, 2.0, 3.0)}
    assert areas["Lock:late"]["y"][:3].tolist() == [0.0, 0.0, 90.0] and np.isnan(areas["Lock:late"]["y"][3])
    assert areas["3 others"]["y"][:3].tolist() == [15.0 + 14.0 + 13.0] * 2 + [0.0]
    assert figure["others"] == {"postgresql wait events: others": ["wait.IO:4", "wait.IO:5", "wait.IO:6"]}
    assert len({area["stackgroup"] for area in areas.values()}) == 1


def test_each_panel_has_a_time_axis_and_all_show_the_same_time() -> None:
    second = np.arange(5.0)
    panels = [Panel(name, "cpu", name, "%", shown=True, heat=False) for name in ("one", "two")]
    columns = [Column("cpu", panel.key, "%", panel, second, second) for panel in panels]

    figure = charts.run_chart(panels, columns, [], Axis(()), charts.LIGHT)

    assert [trace["xaxis"] for trace in figure["data"]] == ["x", "x2"]
    assert (figure["layout"]["xaxis2"]["matches"], figure["layout"]["xaxis2"]["anchor"]) == ("x", "y2")
    assert "title" in figure["layout"]["xaxis2"] and "title" not in figure["layout"]["xaxis"]


@pytest.mark.parametrize(("width", "rows"), [(320, 6), (520, 3), (1200, 1)])
def test_a_legend_stays_below_the_title_of_its_panel(width: int, rows: int) -> None:
    layout = waits(width)["layout"]

    (title,) = layout["annotations"]
    room = layout["height"] * (1 - layout["yaxis"]["domain"][1])
    assert title["yshift"] >= 20 * rows
    assert room - layout["margin"]["t"] < layout["height"] / 2


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_statements_leave_room_for_bars_and_values(width: int) -> None:
    sql = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;"

    layout = charts.statement_chart([StatementLatency("measure statement:12", sql, 4.0)], charts.LIGHT, width)["layout"]

    lines = [line for text in layout["yaxis"]["ticktext"] for line in text.split("<br>")]
    assert max(map(len, lines)) * 6.5 <= max(0.45 * width, 180)
    assert layout["xaxis"]["range"][1] >= 1.1 * 4.0

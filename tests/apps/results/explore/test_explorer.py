"""Any figure by any factor: the parameters of an address, its chart, and refusals."""

from __future__ import annotations

import csv
import io
from typing import Any
from urllib.parse import urlencode

import plotly.graph_objects as go
import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results import charts, queries
from apps.results.explore import explorer, level_numbers
from apps.results.models import Measurement
from common.errors import PlanError
from tests.rows import split
from tests.rows.factories import make_campaign, make_host

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return split.finished(admin, split.host())


def explored(campaign: Campaign, **options: str) -> explorer.Explored:
    return explorer.explore(campaign, explorer.read(campaign, options))


def figure(view: explorer.Explored, stacked: bool = False) -> dict[str, Any]:
    drawn = charts.explorer_chart(view, charts.LIGHT, stacked)
    go.Figure(drawn)  # refuses what Plotly does not know
    return drawn


def test_the_longest_factor_is_across_and_the_next_one_in_colours(campaign: Campaign) -> None:
    view = explorer.read(campaign, {})

    assert (view.figure, view.x, view.colour, view.facet) == ("measure.latency_avg", "shared_buffers", "huge pages", "")


def test_each_place_has_its_runs_and_the_mean_that_the_campaigns_table_has(campaign: Campaign) -> None:
    view = explored(campaign)

    assert (view.xs, view.colours, {len(group.runs) for group in view.groups}) == (
        [*split.SIZES],
        ["off", "on"],
        {5},
    )
    fork = {group.key: group.mean for group in view.groups}
    assert fork["", "off", "8GB"] == pytest.approx(0.120, rel=0.02)
    assert fork["", "on", "8GB"] == pytest.approx(0.081, rel=0.02)
    assert all(group.low < group.mean < group.high for group in view.groups)


def test_of_several_measured_steps_a_chart_says_which(campaign: Campaign) -> None:
    alone = explored(campaign).quantity
    workload = campaign.workload
    workload.steps = [*workload.steps, {**workload.steps[0], "name": "again"}]
    campaign.metric = "measure.latency_avg"

    assert (alone, explored(campaign).quantity) == ("latency_avg (ms)", "measure.latency_avg (ms)")


def test_the_title_of_the_legend_is_the_factor_of_its_colours(campaign: Campaign) -> None:
    legends = [figure(explored(campaign, colour=colour))["layout"]["legend"] for colour in ("huge pages", "")]

    assert [legend.get("title") for legend in legends] == [{"text": "huge pages"}, None]


def test_relative_figures_are_percent_of_the_baseline_of_the_same_colour(campaign: Campaign) -> None:
    view = explored(campaign, x="huge pages", colour="shared_buffers", scale="relative", base="off")

    on = {group.colour: group for group in view.groups if group.x == "on"}
    assert on["8GB"].mean == pytest.approx(-32.5, abs=2)
    assert on["16MB"].mean == pytest.approx(-1.2, abs=2)
    assert on["8GB"].high < -25, "the interval is that of the comparison"
    assert {round(group.mean, 9) for group in view.groups if group.x == "off"} == {0.0}


def test_levels_of_a_factor_without_an_axis_are_pooled_and_named(campaign: Campaign) -> None:
    view = explored(campaign, x="huge pages", colour="", facet="")

    assert view.over == ["shared_buffers"]
    assert {group.x: len(group.runs) for group in view.groups} == {"off": 20, "on": 20}


def test_a_filter_leaves_one_level(campaign: Campaign) -> None:
    view = explored(campaign, x="huge pages", **{"only.shared_buffers": "1GB"})

    assert {run.cell["shared_buffers"] for run in view.runs} == {"1GB"}
    assert view.over == []


def test_runs_that_did_not_end_well_are_not_points(campaign: Campaign) -> None:
    failed = campaign.runs.order_by("position")[0]
    Run.objects.filter(pk=failed.pk).update(outcome=Run.Outcome.FAILED)

    assert failed.pk not in {run.run for run in explored(campaign).runs}


def test_boxes_from_eight_runs_of_each_on(admin: User) -> None:
    few, many = split.finished(admin, split.host(), repetitions=7), split.finished(admin, split.host(), repetitions=8)

    assert (explored(few).view.shape, explored(many).view.shape) == ("strip", "box")
    assert {trace["type"] for trace in figure(explored(many))["data"]} <= {"box", "scatter"}


@pytest.mark.parametrize("shape", ["strip", "box", "lines", "heat"])
@pytest.mark.parametrize("scale", ["absolute", "relative"])
def test_every_shape_is_one_that_plotly_accepts(campaign: Campaign, shape: str, scale: str) -> None:
    for stacked in (False, True):
        drawn = figure(explored(campaign, shape=shape, scale=scale), stacked)

        assert drawn["data"]


def test_facets_are_side_by_side_and_on_a_phone_below_each_other(campaign: Campaign) -> None:
    view = explored(campaign, x="huge pages", facet="shared_buffers")

    wide, narrow = figure(view)["layout"], figure(view, stacked=True)["layout"]

    assert wide["xaxis"]["domain"][1] < wide["xaxis4"]["domain"][0] and wide["yaxis4"]["matches"] == "y"
    assert narrow["yaxis"]["domain"][0] > narrow["yaxis4"]["domain"][1]


def test_a_heat_map_has_a_cell_for_each_pair_and_none_where_nothing_ran(campaign: Campaign) -> None:
    campaign.runs.filter(cell={"shared_buffers": "16MB", "huge pages": "on"}).update(outcome=Run.Outcome.FAILED)

    (heat,) = figure(explored(campaign, shape="heat"))["data"]

    assert [row[3] is None for row in heat["z"]] == [False, True]


@pytest.mark.parametrize(("value", "number"), [(40_380.0, "%{z:.3s}"), (3.1742, "%{z:.3g}")])
def test_cells_of_a_heat_map_have_three_digits_and_a_prefix_from_a_thousand_on(
    campaign: Campaign, value: float, number: str
) -> None:
    Measurement.objects.filter(run__campaign=campaign, name="latency_avg").update(value=value)

    (heat,) = figure(explored(campaign, shape="heat"))["data"]

    assert heat["texttemplate"] == number


def test_a_heat_map_relative_to_a_baseline_has_differences_from_it_in_percent(campaign: Campaign) -> None:
    absolute = explored(campaign, shape="heat")
    (means,) = figure(absolute)["data"]

    (heat,) = figure(explored(campaign, shape="heat", scale="relative", base=absolute.xs[0]))["data"]

    for row, mean in zip(heat["z"], means["z"], strict=True):
        assert row == pytest.approx([100 * (each / mean[0] - 1) for each in mean], abs=0.5)


def test_the_order_of_running_shows_every_run_where_it_ran(campaign: Campaign) -> None:
    view = explored(campaign, x="@order", colour="huge pages")

    traces = figure(view)["data"]
    assert sorted(x for trace in traces for x in trace["x"]) == list(range(1, 41))


def test_sizes_get_an_axis_on_which_doubling_is_a_step() -> None:
    assert level_numbers.numeric(["14GB", "1GB", "128kB"]) == [14 * 2.0**30, 2.0**30, 128 * 2.0**10]
    assert level_numbers.numeric(["1 cpu", "2 cpus", "4 cpus", "8 cpus"]) == [1.0, 2.0, 4.0, 8.0]


def test_numbers_that_do_not_double_get_a_linear_axis() -> None:
    numbers = level_numbers.numeric(["10", "11", "12"])

    assert numbers == [10.0, 11.0, 12.0] and not level_numbers.doubling(numbers)
    assert level_numbers.doubling([1.0, 2.0, 4.0, 8.0])


@pytest.mark.parametrize("labels", [["off", "on"], ["8GB", "16GB"], ["8 cpus", "64 kB", "1GB"], ["1GB", "1GB", "2GB"]])
def test_other_levels_keep_an_axis_of_their_order(labels: list[str]) -> None:
    assert level_numbers.numeric(labels) is None


@pytest.mark.parametrize(
    ("options", "field", "hint"),
    [
        ({"x": "work_mem"}, "x", "shared_buffers"),
        ({"x": "huge pages", "colour": "huge pages"}, "colour", "for each axis"),
        ({"shape": "pie"}, "shape", "strip"),
        ({"scale": "relative", "x": "huge pages", "base": "maybe"}, "base", "off, on"),
        ({"only.huge pages": "perhaps"}, "only.huge pages", "off, on"),
        ({"figure": "measure.joy"}, "figure", "measure.latency_avg"),
    ],
)
def test_an_invalid_choice_is_refused_with_the_valid_ones(
    campaign: Campaign, options: dict[str, str], field: str, hint: str
) -> None:
    with pytest.raises(PlanError) as refused:
        explored(campaign, **options)

    assert refused.value.subject == field
    assert hint in refused.value.hint


def test_a_figure_of_zero_has_a_mean_without_interval_and_no_ratio(campaign: Campaign) -> None:
    for run in campaign.runs.all():
        Measurement.objects.create(
            run=run, step="measure", name="blocks read", value=0.0, unit="blocks", better="lower"
        )

    view = explored(campaign, figure="measure.blocks read")
    assert {(group.mean, group.low) for group in view.groups} == {(0.0, None)}
    with pytest.raises(PlanError, match="no ratio"):
        explored(campaign, figure="measure.blocks read", scale="relative")


def test_the_page_shows_the_error_and_its_form(client: Client, campaign: Campaign, viewer: User) -> None:
    client.force_login(viewer)

    answer = client.get(reverse("campaign_explore", args=[campaign.pk]), {"shape": "pie"})

    assert answer.status_code == 422
    assert "&#x27;pie&#x27; does not exist here" in answer.content.decode()
    assert 'name="shape"' in answer.content.decode()


def test_a_figure_that_no_column_can_hold_is_refused(client: Client, campaign: Campaign, viewer: User) -> None:
    client.force_login(viewer)

    answer = client.get(reverse("campaign_explore", args=[campaign.pk]), {"figure": "measure.\0"})

    assert answer.status_code == 400
    assert "contains a NUL" in answer.content.decode()


def test_the_csv_has_every_run_of_the_view(client: Client, campaign: Campaign, viewer: User) -> None:
    client.force_login(viewer)
    query = urlencode({"only.huge pages": "on"})

    answer = client.get(reverse("campaign_explore_csv", args=[campaign.pk]) + f"?{query}")

    table = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))
    assert len(table) == 20
    assert {row["huge pages"] for row in table} == {"on"}
    assert float(table[0]["latency_avg (ms)"]) > 0


def test_the_number_of_queries_of_the_explorer_does_not_grow_with_runs(
    admin: User, django_assert_num_queries: Any
) -> None:
    for repetitions in (2, 9):
        campaign = split.finished(admin, split.host(), repetitions=repetitions)
        campaign = Campaign.objects.select_related("workload").get(pk=campaign.pk)
        with django_assert_num_queries(2):
            explored(campaign)


def as_in_the_table(campaign: Campaign) -> None:
    """Each level has the mean and the intervals of the campaign's table."""
    for level in queries.campaign_table(campaign).levels:
        shown = {
            scale: next(
                group
                for group in explorer.explore(
                    campaign, explorer.read(campaign, {"scale": scale, "shape": "strip"})
                ).groups
                if group.x == level.label
            )
            for scale in ("absolute", "relative")
        }
        absolute, relative = shown["absolute"], shown["relative"]
        assert (absolute.mean, absolute.low, absolute.high) == (level.mean, level.low, level.high)
        assert (relative.low, relative.high) == (level.relative_low, level.relative_high)


@pytest.mark.parametrize("placement", [Campaign.Placement.EACH, Campaign.Placement.SPREAD])
def test_levels_on_several_hosts_have_the_intervals_of_the_table(admin: User, placement: str) -> None:
    hosts = [make_host(f"rack-{number}") for number in range(3)]
    fields: dict[str, Any] = {"host": hosts[0], "further_hosts": hosts[1:], "placement": placement, "repetitions": 6}
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, **fields)
    if placement == Campaign.Placement.SPREAD:
        for number, host in enumerate(hosts):
            campaign.runs.filter(block__in=[2 * number, 2 * number + 1]).update(host=host)

    as_in_the_table(campaign)


def test_a_retried_run_has_a_block_of_its_own_as_in_the_table(admin: User) -> None:
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=6)
    first, *_, again = campaign.runs.filter(cell=campaign.runs.all()[0].cell).order_by("block")
    first.measurements.all().delete()
    Run.objects.filter(pk=first.pk).update(outcome=Run.Outcome.FAILED)
    Run.objects.filter(pk=again.pk).update(retry_of=first.pk, block=0)

    as_in_the_table(campaign)

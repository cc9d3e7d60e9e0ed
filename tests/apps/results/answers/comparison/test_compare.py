"""Comparisons of two or more items: figures, planned differences and unplanned ones."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest
from django.test import Client
from django.urls import reverse

from agents.wire.protocol import digest
from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Facts
from apps.results import charts, queries
from apps.results.answers.comparison.compare import compare
from apps.results.models import Measurement
from common.errors import PlanError
from tests.rows import split
from tests.rows.factories import browser, end_run, make_campaign, make_host
from tests.servers.machine import facts, kernel

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return split.finished(admin, split.host())


def level(campaign: Campaign, label: str) -> str:
    return f"level:{campaign.pk}:{label}"


def named(huge_pages: str) -> str:
    """A level of 8GB as a reader sees it: with the names of the factors that vary."""
    return f"shared_buffers=8GB, huge pages={huge_pages}"


def test_two_levels_of_a_campaign_are_paired_within_its_blocks(campaign: Campaign) -> None:
    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])

    (one,) = comparison.comparisons
    assert (comparison.paired, one.verdict, one.n) == (True, "better", 5)
    assert one.ratio_percent == pytest.approx(-32.5, abs=2)
    assert one.method.startswith("paired t")


def test_figures_of_many_runs_are_those_of_few(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [level(campaign, "8GB, off"), level(campaign, "8GB, on")]
    few = compare(sides)
    monkeypatch.setattr("apps.results.answers.comparison.sides.FEW", 0)

    many = compare(sides)

    assert [arm.values for arm in many.arms] == [arm.values for arm in few.arms]


def test_each_further_side_is_compared_with_the_first_as_the_campaigns_page_does(campaign: Campaign) -> None:
    labels = queries.labels_of(campaign, [])
    table = {row.label: row for row in queries.campaign_table(campaign).levels}

    comparison = compare([level(campaign, label) for label in labels[:6]])

    assert len(comparison.comparisons) == 5
    assert comparison.comparisons[0].ratio_percent == pytest.approx(table[labels[1]].relative_percent)


def test_single_runs_are_points_without_a_ranking(campaign: Campaign) -> None:
    first, second = campaign.runs.order_by("position")[:2]

    comparison = compare([f"run:{first.pk}", f"run:{second.pk}"])

    assert [one.verdict for one in comparison.comparisons] == ["points_only"]
    assert "Too few runs to compare" in comparison.sentence


def test_campaigns_are_compared_at_a_level_that_both_have(admin: User, campaign: Campaign) -> None:
    later = split.finished(admin, split.host(), name="after the upgrade")

    comparison = compare([f"campaign:{campaign.pk}", f"campaign:{later.pk}"])

    assert (len(comparison.whats), comparison.paired) == (8, False)
    assert {run.cell["huge pages"] for arm in comparison.arms for run in arm.chosen} != {"off", "on"}
    other = compare([f"campaign:{campaign.pk}", f"campaign:{later.pk}"], what=comparison.whats[-1][0])
    assert other.arms[0].chosen.values("cell")[0] != comparison.arms[0].chosen.values("cell")[0]


def test_campaigns_of_one_name_stay_two_sides(admin: User, campaign: Campaign) -> None:
    again = split.finished(admin, split.host())

    comparison = compare([f"campaign:{campaign.pk}", f"campaign:{again.pk}"])

    assert [arm.n for arm in comparison.arms] == [5, 5]


def test_hosts_are_compared_by_the_specs_that_both_have_run(admin: User) -> None:
    here, there = split.host("rack-1"), split.host("rack-2")
    split.finished(admin, here)
    split.finished(admin, there)

    comparison = compare(["host:rack-1", "host:rack-2"])

    assert [{run.host.name for run in arm.runs} for arm in comparison.arms] == [{"rack-1"}, {"rack-2"}]


def test_planned_differences_are_distinguished_from_unplanned_ones(campaign: Campaign) -> None:
    run = campaign.runs.filter(cell={"shared_buffers": "8GB", "huge pages": "on"}).first()
    assert run is not None
    run.spec["settings"].setdefault("sysctl", {})["vm.swappiness"] = 1
    run.digest = digest(run.spec)
    run.save(update_fields=["spec", "digest"])

    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])

    differences = {difference.path: (difference.values, difference.planned) for difference in comparison.differences}
    assert differences["settings.huge_pages.use"] == (["off", "on"], True)
    assert differences["settings.sysctl.vm.swappiness"][1] is False


def test_another_kernel_is_an_unplanned_difference(campaign: Campaign) -> None:
    host = campaign.host
    old = host.facts_history.order_by("-number")[0]
    new = Facts.objects.create(host=host, number=99, digest="x", data=facts(kernel=kernel(release="6.99.0")))
    for run in campaign.runs.all():
        run.facts = new if run.cell["huge pages"] == "on" else old
        run.save(update_fields=["facts"])

    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])

    assert [row.values[1] for row in comparison.unplanned if row.path == "kernel.release"] == ["6.99.0"]


def test_a_host_that_changed_while_both_sides_ran_is_a_difference(campaign: Campaign) -> None:
    host = campaign.host
    old = host.facts_history.order_by("-number")[0]
    new = Facts.objects.create(host=host, number=99, digest="x", data=facts(kernel=kernel(release="6.99.0")))
    for run in campaign.runs.all():
        run.facts = new if run.block > 1 else old
        run.save(update_fields=["facts"])

    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])

    assert "a host change: kernel.release" in comparison.warnings[0]
    assert [(row.path, row.values) for row in comparison.unplanned] == [
        ("kernel.release", ["6.12.48-amd64 or 6.99.0", "6.12.48-amd64 or 6.99.0"])
    ]


def test_a_side_that_mixes_hosts_says_so(admin: User) -> None:
    host, other = split.host("rack-1"), split.host("rack-2")
    campaign = split.finished(admin, host)
    campaign.runs.filter(block=0).update(host=other)

    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])

    assert "mixes runs of 2 hosts: rack-1, rack-2" in comparison.warnings[0]
    assert not comparison.paired


def two_levels(campaign: Campaign) -> list[str]:
    return [level(campaign, label) for label in queries.labels_of(campaign, [])[:2]]


def on_two_hosts(admin: User, placement: str) -> Campaign:
    hosts = [make_host("rack-1"), make_host("rack-2")]
    fields = {"host": hosts[0], "further_hosts": hosts[1:], "placement": placement, "repetitions": 6}
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, **fields)
    if placement == Campaign.Placement.SPREAD:
        campaign.runs.filter(block__gte=3).update(host=hosts[1])
    return campaign


@pytest.mark.parametrize(
    ("placement", "verdict"), [(Campaign.Placement.EACH, "points_only"), (Campaign.Placement.SPREAD, "better")]
)
def test_levels_on_several_hosts_get_the_verdict_of_their_campaigns_page(
    admin: User, placement: str, verdict: str
) -> None:
    campaign = on_two_hosts(admin, placement)
    row = queries.campaign_table(campaign).levels[1]

    comparison = compare(two_levels(campaign))

    [one] = comparison.comparisons
    assert (one.verdict, one.interval and one.interval[0]) == (row.verdict, row.relative_low)
    assert one.verdict == verdict
    assert one.ratio_percent == row.relative_percent
    assert one.sentence() == row.sentence
    assert one.sentence().startswith("Too few hosts to compare") == (verdict == "points_only")


def test_two_hosts_of_one_campaign_are_compared_by_their_runs(admin: User) -> None:
    on_two_hosts(admin, Campaign.Placement.EACH)

    [one] = compare(["host:rack-1", "host:rack-2"]).comparisons

    assert (one.unit, one.n) == ("run", 6)


def test_levels_without_a_common_block_on_any_host_are_refused(admin: User) -> None:
    campaign = on_two_hosts(admin, Campaign.Placement.EACH)
    first = queries.labels_of(campaign, [])[0]
    for run in campaign.runs.all():
        if (run.label == first) == (run.block % 2 == 0):
            Run.objects.filter(pk=run.pk).update(outcome=Run.Outcome.FAILED)

    with pytest.raises(PlanError, match="no block on a host has a run of each item"):
        compare(two_levels(campaign))


def test_a_zero_on_one_of_several_hosts_is_shown_without_a_verdict(admin: User) -> None:
    campaign = on_two_hosts(admin, Campaign.Placement.EACH)
    Measurement.objects.filter(run=campaign.runs.first(), name="tps").update(value=0.0)

    assert compare(two_levels(campaign), figure="measure.tps").comparisons == []


def test_levels_of_a_campaign_that_was_extended_after_its_results_get_the_verdict_of_its_page(
    admin: User, campaign: Campaign
) -> None:
    planned = compare(two_levels(campaign)).comparisons[0]
    Campaign.objects.filter(pk=campaign.pk).update(extensions=[{"seen": True}])
    campaign.refresh_from_db()

    [one] = compare(two_levels(campaign)).comparisons

    assert one.method.endswith("adjusted for unplanned analyses")
    assert planned.interval is not None
    assert one.interval is None or one.interval[0] < planned.interval[0]


def test_a_run_that_was_retried_later_is_not_paired_with_its_block(admin: User) -> None:
    campaign = make_campaign(Campaign.State.FINISHED, by=admin, repetitions=5)
    failed = campaign.runs.filter(block=0).first()
    assert failed is not None
    fields = {"campaign": campaign, "host": failed.host, "block": 0, "position": 99, "cell": failed.cell}
    again = Run.objects.create(**fields, retry_of=failed, spec=failed.spec, digest=failed.digest)
    end_run(again)
    Run.objects.filter(pk=failed.pk).update(outcome=Run.Outcome.FAILED)

    [one] = compare(two_levels(campaign)).comparisons

    row = queries.campaign_table(campaign).levels[1]
    assert (one.n, one.verdict, one.ratio_percent) == (4, row.verdict, row.relative_percent)


def test_an_inconclusive_comparison_gives_the_runs_needed_and_their_duration(admin: User) -> None:
    campaign = split.finished(admin, split.host(), noise=0.08)

    comparison = compare([level(campaign, "16MB, off"), level(campaign, "16MB, on")], delta=0.02)

    assert comparison.comparisons[0].verdict == "undetectable"
    assert comparison.more[0].startswith("Runs needed to detect 2 % (80 % power): ") and comparison.more[0].endswith(
        " h."
    )


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (["run:nonsense"], "1 item cannot be compared"),
        (["run:nonsense", "host:x"], "'run:nonsense' does not exist"),
        (["planet:earth", "host:x"], "does not name an item to compare"),
        (["host:nowhere", "host:x"], "'host:nowhere' does not exist"),
        (["profile:fast@one", "host:x"], "does not exist"),
    ],
)
def test_sides_that_do_not_exist_are_named(of: list[str], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        compare(of)


def test_an_unknown_level_is_refused_with_the_known_ones(campaign: Campaign) -> None:
    with pytest.raises(PlanError) as refused:
        compare([level(campaign, "9GB, off"), level(campaign, "8GB, on")])

    assert "8GB, off" in refused.value.hint


def test_sides_without_a_level_in_common_are_refused(admin: User, campaign: Campaign) -> None:
    other = make_campaign(Campaign.State.FINISHED, by=admin)

    with pytest.raises(PlanError, match="no levels of the same workload"):
        compare([f"campaign:{campaign.pk}", f"campaign:{other.pk}"])


def test_a_side_whose_runs_all_failed_is_refused(campaign: Campaign) -> None:
    campaign.runs.filter(cell__contains={"huge pages": "on"}).update(outcome=Run.Outcome.FAILED)

    with pytest.raises(PlanError, match="no successful run"):
        compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])


def test_a_figure_of_zero_is_shown_without_a_verdict(campaign: Campaign) -> None:
    for run in campaign.runs.all():
        Measurement.objects.create(run=run, step="measure", name="read", value=0.0, unit="blocks", better="lower")

    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")], figure="measure.read")

    assert (comparison.comparisons, [arm.mean for arm in comparison.arms]) == ([], [0.0, 0.0])


def test_the_charts_are_ones_that_plotly_accepts(campaign: Campaign) -> None:
    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on"), level(campaign, "1GB, on")])

    for chart in (charts.runs_chart, charts.interval_chart, charts.ecdf_chart):
        assert go.Figure(chart(comparison, charts.DARK)).data


def test_the_margin_is_drawn_around_nothing_at_all(campaign: Campaign) -> None:
    comparison = compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")], delta=0.03)

    layout = charts.interval_chart(comparison, charts.LIGHT)["layout"]

    assert (layout["shapes"][0]["x0"], layout["shapes"][0]["x1"]) == (-3.0, 3.0)
    assert layout["xaxis"]["range"][0] < 0 < layout["xaxis"]["range"][1]


def test_the_page_names_both_sides_and_swaps_them(client: Client, campaign: Campaign, viewer: User) -> None:
    client.force_login(viewer)
    of = [level(campaign, "8GB, off"), level(campaign, "8GB, on")]

    html = client.get(reverse("compare"), {"of": of}).content.decode()

    assert "is better than" in html
    sides = html[html.index('aria-label="Sides"') :]
    assert sides.index(f">{named('off')}<") < sides.index(f">{named('on')}<")


def test_the_page_explains_why_items_cannot_be_compared(client: Client, viewer: User) -> None:
    client.force_login(viewer)

    answer = client.get(reverse("compare"), {"of": ["host:nowhere", "host:x"]})

    page = answer.content.decode()
    assert answer.status_code == 422
    assert "host:NAME" in page and "&#x27;host:nowhere&#x27; does not exist" in page and "of: " not in page


def test_comparing_asks_no_more_with_more_runs(admin: User, django_assert_max_num_queries: Any) -> None:
    for repetitions in (2, 9):
        campaign = split.finished(admin, split.host(), repetitions=repetitions)
        with django_assert_max_num_queries(20):
            compare([level(campaign, "8GB, off"), level(campaign, "8GB, on")])


def test_the_api_has_the_verdict_and_whether_it_is_worse_than_the_margin(viewer: User, campaign: Campaign) -> None:
    of = [level(campaign, "8GB, on"), level(campaign, "8GB, off")]

    answer = browser(viewer).get("/api/v1/compare/", {"of": of}).json()

    (one,) = answer["comparisons"]
    assert (answer["worse"], one["worse"], one["verdict"]) == (True, True, "worse")
    assert [side["title"] for side in answer["sides"]] == [one["a"], one["b"]] == [named("on"), named("off")]
    assert one["sentence"] in answer["sentence"]
    assert answer["differences"][0] == {"what": "settings.huge_pages.use", "values": ["on", "off"]}
    lenient = browser(viewer).get("/api/v1/compare/", {"of": of, "delta": "90"}).json()
    assert (lenient["worse"], lenient["delta"]) == (False, 0.9)


def test_the_api_refuses_a_comparison_of_one_item(viewer: User, campaign: Campaign) -> None:
    refused = browser(viewer).get("/api/v1/compare/", {"of": [level(campaign, "8GB, on")]})

    assert (refused.status_code, refused.json()["field"]) == (400, "of")
    assert "level:CAMPAIGN ID:LEVEL" in refused.json()["hint"]


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("tps, % against 1 cpu", "tps, % against 1 cpu"),
        ("latency_avg, % against 8GB, off", "latency_avg<br>% against 8GB, off"),
        ("a figure with a long name and no baseline", "a figure with a long name and no baseline"),
    ],
)
def test_a_title_too_long_for_a_phone_takes_two_lines(title: str, shown: str) -> None:
    chart = charts.forest_chart([("B against A", 1.0, (0.5, 1.5), "better")], 0.02, title, charts.LIGHT)

    assert chart["layout"]["xaxis"]["title"]["text"] == shown

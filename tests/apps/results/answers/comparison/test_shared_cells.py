"""Comparisons of all combinations that both sides have run, corrected for their number; others are named."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from scipy import stats as scipy_stats

import stats
from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results.answers.comparison import shared_cells
from apps.results.answers.comparison.compare import Compared, compare
from apps.results.models import Measurement
from tests.rows import split

pytestmark = pytest.mark.django_db
A, B = [10120, 10080, 10240, 9990, 10170], [10390, 10330, 10480, 10360, 10400]
TPS = stats.Metric("tps", "tps", "higher")


@pytest.fixture
def campaigns(admin: User) -> list[Campaign]:
    """Two of the same eight levels."""
    return [split.finished(admin, split.host(), name=name) for name in ("before", "after")]


def sides(campaigns: list[Campaign]) -> list[str]:
    return [f"campaign:{campaign.pk}" for campaign in campaigns]


def listed(campaigns: list[Campaign], start: int = 0, **options: Any) -> shared_cells.Shared:
    shared = shared_cells.shared(compare(sides(campaigns), **options), start)
    assert shared is not None
    return shared


def test_each_of_four_comparisons_has_a_quarter_of_the_error_rate() -> None:
    alone = stats.compare(A, B, metric=TPS, delta=0.02, blocked=False)
    among = stats.compare(A, B, metric=TPS, delta=0.02, blocked=False, of=4)

    assert alone.p == pytest.approx(0.00119, abs=5e-6) and among.p == pytest.approx(4 * alone.p)
    assert (among.ratio_percent, among.mean_a) == (alone.ratio_percent, alone.mean_a)
    assert alone.interval == pytest.approx((1.507, 3.887), abs=5e-4) and among.interval
    df = 6.428
    wider = scipy_stats.t.ppf(1 - 0.05 / 8, df) / scipy_stats.t.ppf(0.975, df)
    assert stats.half_width_percent(among.interval) == pytest.approx(
        stats.half_width_percent(alone.interval) * wider, rel=0.01
    )
    assert (alone.verdict, among.verdict) == ("direction_better", "direction_better")
    assert among.mde_percent and alone.mde_percent and among.mde_percent > alone.mde_percent


def test_p_of_one_of_many_is_one_at_most() -> None:
    one = stats.compare(A, [*A[1:], A[0] + 1], metric=TPS, delta=0.02, blocked=False, of=100)

    assert one.p == 1.0 and "Bonferroni for 100" in one.method


def test_all_levels_that_both_have_run_are_listed_with_the_ratio_that_each_has_alone(campaigns: list[Campaign]) -> None:
    shared = listed(campaigns)

    assert (shared.total, shared.tested, len(shared.pairs), shared.alone) == (8, 8, 8, [])
    for pair in shared.pairs:
        (alone,) = compare(sides(campaigns), what=pair.key).comparisons
        one = pair.comparison
        assert one and one.interval and alone.interval
        assert one.ratio_percent == pytest.approx(alone.ratio_percent) and pair.n == (5, 5)
        assert one.interval[0] < alone.interval[0] and one.interval[1] > alone.interval[1]
        assert (one.verdict, one.p, alone.p) == ("undetectable", None, None)
        assert "Variation between campaigns is not included" in one.sentence()


def test_campaigns_are_compared_with_the_variation_between_those_of_the_history(
    admin: User, campaigns: list[Campaign]
) -> None:
    host = campaigns[0].host
    for number in range(3):
        split.finished(admin, host, name=f"earlier {number}")

    comparison = compare(sides(campaigns))

    (one,) = comparison.comparisons
    assert comparison.days and comparison.days.between and comparison.days.between.df == 2
    assert "variation between campaigns (REML, 2 df)" in one.method
    assert "not included" not in one.sentence()
    assert comparison.more == []


def test_more_campaigns_of_a_side_narrow_the_intervals_of_all_its_levels(admin: User) -> None:
    hosts = [split.host(), split.host()]
    for host in hosts:
        for number in range(3):
            campaign = split.finished(admin, host, name=f"{host} {number}")
            measured = Measurement.objects.filter(run__campaign=campaign)
            measured.update(value=F("value") * (1 + 0.1 * number))

    comparison = compare([f"host:{host.name}" for host in hosts])
    shared = shared_cells.shared(comparison)

    assert comparison.days and comparison.days.between and comparison.days.between.variance > 0 and shared
    a, b = (arm.values for arm in comparison.arms)
    of_campaigns = {"metric": TPS, "delta": comparison.delta, "campaigns": (3, 3), "of": shared.tested}
    expected = stats.compare_campaigns(a, b, comparison.days.between, **of_campaigns)  # type: ignore[arg-type]
    (chosen,) = [pair.comparison for pair in shared.pairs if pair.key == comparison.what]
    assert chosen and chosen.interval == pytest.approx(expected.interval)
    assert len({pair.comparison.method for pair in shared.pairs if pair.comparison}) == 1


def test_each_further_side_is_compared_with_the_first(admin: User, campaigns: list[Campaign]) -> None:
    campaigns.append(split.finished(admin, split.host(), name="later"))

    shared = listed(campaigns)

    assert shared.tested == 16
    assert [pair.letter for pair in shared.pairs[:4]] == ["B", "C", "B", "C"]
    assert "C" in shared.pairs[1].sentence.split()


def test_combinations_that_only_one_side_has_run_are_counted_and_named(campaigns: list[Campaign]) -> None:
    before, after = campaigns
    after.runs.filter(cell={"shared_buffers": "8GB", "huge pages": "on"}).update(outcome=Run.Outcome.FAILED)
    before.runs.filter(cell__contains={"shared_buffers": "16MB"}).update(outcome=Run.Outcome.FAILED)

    shared = listed(campaigns)

    assert {each.letter: each.levels for each in shared.alone} == {"A": ["8GB, on"], "B": ["16MB, off", "16MB, on"]}
    assert shared.total == 5


def test_many_names_are_cut_and_the_rest_counted() -> None:
    assert shared_cells.Alone("A", [str(n) for n in range(10)]).named == "0; 1; 2; 3; 4; 5; 6; 7; and 2 more"


def test_a_level_of_too_few_runs_is_points_and_is_not_adjusted_for(campaigns: list[Campaign]) -> None:
    _, after = campaigns
    few = after.runs.filter(cell={"shared_buffers": "8GB", "huge pages": "on"}, block__gte=2)
    few.update(outcome=Run.Outcome.FAILED)

    shared = listed(campaigns)

    assert (shared.total, shared.tested) == (8, 7)
    points = [pair for pair in shared.pairs if pair.comparison and pair.comparison.verdict == "points_only"]
    assert [pair.n for pair in points] == [(5, 2)] and "Too few runs to compare" in points[0].sentence


def test_pages_hold_some_levels_each_and_their_intervals_hold_together(
    campaigns: list[Campaign], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = listed(campaigns)
    monkeypatch.setattr(shared_cells, "PAGE", 3)

    pages = [listed(campaigns, start) for start in (0, 3, 6)]

    assert [(page.before, page.after, page.last) for page in pages] == [(None, 3, 3), (0, 6, 6), (3, None, 8)]
    assert [pair for page in pages for pair in page.pairs] == whole.pairs
    assert listed(campaigns, 99).start == 0


def test_sides_of_one_level_have_no_list(campaigns: list[Campaign]) -> None:
    one = f"level:{campaigns[0].pk}:8GB, on"

    assert shared_cells.shared(compare([one, f"campaign:{campaigns[1].pk}"])) is None


def test_a_figure_of_zero_has_means_and_no_verdict(campaigns: list[Campaign]) -> None:
    for run in Run.objects.filter(campaign__in=campaigns):
        Measurement.objects.create(run=run, step="measure", name="read", value=0.0, unit="blocks", better="lower")

    shared = listed(campaigns, figure="measure.read")

    assert {(pair.means, pair.comparison) for pair in shared.pairs} == {((0.0, 0.0), None)}


def test_the_page_lists_them_and_leads_to_each(client: Client, campaigns: list[Campaign], viewer: User) -> None:
    client.force_login(viewer)

    html = client.get(reverse("compare"), {"of": sides(campaigns)}).content.decode()

    table = html[html.index("All levels that both have run") :]
    assert table.count("Preliminary") + table.count("Inconclusive") + table.count("equivalent") >= 1
    assert "1 to 8 of 8" in table and "adjusted for 8 comparisons" in table
    assert "Every level exists on all sides" in table and 'aria-current="true"' in table


def test_the_csv_has_all_of_them_and_those_without_counterpart(
    client: Client, campaigns: list[Campaign], viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_cells, "AT_ONCE", 3)
    campaigns[0].runs.filter(cell={"shared_buffers": "8GB", "huge pages": "on"}).update(outcome=Run.Outcome.FAILED)
    client.force_login(viewer)

    answer = client.get(reverse("compare_levels"), {"of": sides(campaigns)})

    head, *rows = b"".join(answer).decode().splitlines()  # type: ignore[arg-type]
    assert head.startswith("level,sides,runs of A") and len(rows) == 8
    assert sum("B against A" in row for row in rows) == 7 and rows[-1].endswith("B only")


def test_a_list_costs_two_queries_for_each_side(
    admin: User, campaigns: list[Campaign], django_assert_num_queries: Any
) -> None:
    more = [split.finished(admin, split.host(), name=name, repetitions=8) for name in ("one", "two")]
    for each in (campaigns, more):
        comparison: Compared = compare(sides(each))
        with django_assert_num_queries(4):
            shared_cells.shared(comparison)

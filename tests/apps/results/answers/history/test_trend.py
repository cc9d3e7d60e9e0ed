"""The campaigns of a schedule over time: their noise, a regression, and what changed on the host."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Channel, Delivery, User
from apps.campaigns.models import Run, Schedule, Slot
from apps.hosts.models import Facts
from apps.results.answers.history import regressions
from apps.results.answers.history.trend import trend
from apps.results.charts import theme, trend_chart
from tests.rows.factories import make_campaign, make_schedule
from tests.rows.scheduled import measured

pytestmark = pytest.mark.django_db
FIRST = datetime(2026, 5, 1, 2, 30, tzinfo=UTC)
NOISE = (1.0, 1.012, 0.991, 1.004, 0.985, 1.009)


def history(schedule: Schedule, *factors: float) -> list[Slot]:
    return [measured(schedule, FIRST + timedelta(days=day), factor) for day, factor in enumerate(factors)]


@pytest.fixture
def schedule() -> Schedule:
    return make_schedule(make_campaign(), name="nightly")


@pytest.fixture
def channel(admin: User) -> Channel:
    kinds = ["schedule.regression"]
    return Channel.objects.create(name="c", owner=admin, kind="mail", address="a@example.org", events=kinds)


@pytest.mark.thorough
def test_before_five_earlier_campaigns_it_says_how_many_are_missing(schedule: Schedule, channel: Channel) -> None:
    history(schedule, 1.0, 1.01, 0.5)

    current_trend = trend(schedule)
    regressions.compare_due(FIRST)

    assert (current_trend.missing, current_trend.verdicts, current_trend.regression) == (3, [], "")
    assert not Delivery.objects.exists()


@pytest.mark.thorough
def test_noise_between_campaigns_is_not_a_regression(schedule: Schedule, channel: Channel) -> None:
    history(schedule, *NOISE, 0.98)

    regressions.compare_due(FIRST)

    current_trend = trend(schedule)
    assert {each.verdict for _, each in current_trend.verdicts} == {"undetectable"}
    assert (current_trend.earlier, current_trend.regression) == (6, "")
    assert not Delivery.objects.exists()


@pytest.mark.thorough
def test_a_step_beyond_the_noise_is_a_regression_and_reported_once(schedule: Schedule, channel: Channel) -> None:
    slots = history(schedule, *NOISE, 0.9)

    regressions.compare_due(FIRST)
    regressions.compare_due(FIRST)

    slot = Slot.objects.get(pk=slots[-1].pk)
    assert slot.regression == trend(schedule).regression
    assert slot.regression.startswith("1 cpu is worse than in the 6 earlier campaigns: tps -10.0 %")
    delivery = Delivery.objects.get()
    assert delivery.subject == "nightly 2026-05-07 is worse than the earlier campaigns"
    assert delivery.payload["campaign"] == str(slots[-1].campaign_id)
    assert Slot.objects.filter(compared_at=None).count() == 0


@pytest.mark.thorough
def test_an_improvement_is_not_a_regression(schedule: Schedule, channel: Channel) -> None:
    history(schedule, *NOISE, 1.2)

    regressions.compare_due(FIRST)

    assert {each.verdict for _, each in trend(schedule).verdicts} == {"better"}
    assert not Delivery.objects.exists()


@pytest.mark.thorough
def test_a_campaign_waits_until_its_results_are_read(schedule: Schedule, channel: Channel) -> None:
    slots = history(schedule, *NOISE, 0.9)
    unread = slots[-1].campaign.runs.all()  # type: ignore[union-attr]
    Run.objects.filter(pk=unread[0].pk).update(ingested_at=None)

    regressions.compare_due(FIRST)
    before = Delivery.objects.count()
    unread.update(ingested_at=FIRST)
    regressions.compare_due(FIRST)

    assert (before, Delivery.objects.count()) == (0, 1)


@pytest.mark.thorough
def test_the_page_has_the_chart_the_banner_and_the_changes_of_the_host(schedule: Schedule, viewer: User) -> None:
    slots = history(schedule, *NOISE, 0.9)
    host = schedule.campaign.host
    data = json.loads(json.dumps(host.facts))
    data["kernel"]["release"] = "6.6.0"
    newer = Facts.objects.create(host=host, number=2, digest="1" * 64, data=data)
    slots[-1].campaign.runs.update(facts=newer)  # type: ignore[union-attr]
    client = Client()
    client.force_login(viewer)
    address = reverse("schedule_detail", args=[schedule.pk])

    page, table = client.get(address).text, client.get(f"{address}?view=table").text
    figure = client.get(reverse("schedule_figure", args=[schedule.pk])).json()
    csv = b"".join(client.get(reverse("schedule_csv", args=[schedule.pk]))).decode().splitlines()  # type: ignore[arg-type]

    assert "Regression in" in page
    assert "kernel.release" in page
    assert table.count("nightly 2026-05-") >= 14
    assert [len(line["x"]) for line in figure["data"]] == [7, 7]
    assert figure["layout"]["shapes"][0]["x0"] == "2026-05-07 02:30:00"
    assert len(csv) == 1 + 14


@pytest.mark.thorough
@pytest.mark.parametrize("campaigns", [2, 7])
def test_more_campaigns_take_no_more_queries(
    campaigns: int, schedule: Schedule, django_assert_num_queries: object
) -> None:
    history(schedule, *([1.0, 1.01] * 4)[:campaigns])
    reloaded = Schedule.objects.select_related("campaign__workload").get(pk=schedule.pk)

    with django_assert_num_queries(3):  # type: ignore[operator]  # slots, runs, figures
        trend(reloaded)


def test_levels_are_in_the_order_of_the_design_whichever_ran_first(schedule: Schedule) -> None:
    history(schedule, 1.0)

    assert trend(schedule).levels == ["1 cpu", "2 cpus"]


def test_a_single_campaign_is_drawn_on_an_axis_of_days(schedule: Schedule) -> None:
    history(schedule, 1.0)

    axis = trend_chart(trend(schedule), theme(""))["layout"]["xaxis"]

    assert axis["range"] == ["2026-04-30 02:30:00", "2026-05-02 02:30:00"]

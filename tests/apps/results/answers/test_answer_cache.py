"""Cached answers of a campaign: computed once, equal to the original, and dropped after a change."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns import lifecycle
from apps.campaigns.models import Campaign, Run
from apps.results import queries
from apps.results.answers.summary import summary_table
from apps.results.answers.table import CampaignTable, LevelRow
from apps.results.models import CachedAnswer, Measurement
from apps.results.store import campaign_cache
from apps.results.store.campaign_cache import CampaignCache
from tests.rows.factories import browser, end_run, make_campaign, make_host, make_user

pytestmark = pytest.mark.django_db

FILLED = {"table", "summary", campaign_cache.SUMMARY, "figure"}


@pytest.fixture
def campaign(tuner: User) -> Campaign:
    return make_campaign(Campaign.State.FINISHED, by=tuner, repetitions=5)


@pytest.fixture
def tuner() -> User:
    return make_user(Role.TUNER)


def bare(table: CampaignTable) -> Any:
    """A table as JSON without its points."""
    for level in table.levels:
        level.points.clear()
    return orjson.loads(orjson.dumps(table))


def again(campaign: Campaign) -> CampaignCache:
    """As the next request has it."""
    return CampaignCache(Campaign.objects.get(pk=campaign.pk))


def test_cached_tables_equal_computed_ones(campaign: Campaign) -> None:
    CampaignCache(campaign).table(), CampaignCache(campaign).summary()

    table, whole = again(campaign).table(), queries.campaign_table(campaign)

    assert [level.points for level in table.levels] == [[], []]
    assert [level.ok for level in table.levels] == [5, 5]
    assert bare(table) == bare(whole)
    assert all(isinstance(level, LevelRow) for level in table.levels)
    assert again(campaign).summary() == summary_table(campaign)


def test_a_measurement_without_a_finite_value_is_no_key_figure(campaign: Campaign) -> None:
    Measurement.objects.filter(run__campaign=campaign, name="latency_avg").update(value=math.nan)

    key_figures = CampaignCache(campaign).key_figures("1 cpu")

    assert [(figure.title, figure.value) for figure in key_figures] == [("TPS", 1002.0)]


def test_it_is_computed_once(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    CampaignCache(campaign).fill()
    monkeypatch.setattr(queries, "campaign_table", None)  # computing it again would fail

    again(campaign).table()
    again(campaign).figure("light")

    assert set(campaign.cached_answers.values_list("name", flat=True)) == FILLED


def test_all_that_a_page_shows_takes_two_queries(campaign: Campaign) -> None:
    def shown(cache: CampaignCache) -> list[Any]:
        drawn = [cache.levels_drawn(), cache.summary_drawn(), cache.judgements_drawn()]
        return [cache.progress(), cache.breaks(), cache.hosts(), cache.table(), *drawn]

    first = shown(CampaignCache(campaign))
    cache = again(campaign)

    with CaptureQueriesContext(connection) as captured:
        second = shown(cache)

    assert len(captured) == 2
    assert first[:3] == second[:3] and first[4:] == second[4:]


def test_a_part_of_a_page_is_drawn_once_and_again_after_a_change(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CampaignCache(campaign).levels_drawn()
    with monkeypatch.context() as patch:
        patch.setattr(campaign_cache, "render_to_string", None)  # rendering it again would fail
        assert again(campaign).levels_drawn() == before

    Run.objects.filter(campaign=campaign, position=0).update(outcome=Run.Outcome.FAILED)

    assert "4 / 5" not in before
    assert "4 / 5" in again(campaign).levels_drawn()


def test_a_host_s_part_is_not_that_of_all(campaign: Campaign) -> None:
    other = make_host()
    Run.objects.filter(campaign=campaign, block__lt=2).update(host=other)

    of_all, of_one = CampaignCache(campaign).levels_drawn(), CampaignCache(campaign, other.pk).levels_drawn()

    assert "5 / 5" in of_all and "2 / 2" in of_one
    assert again(campaign).levels_drawn() == of_all


def changes() -> dict[str, Any]:
    def run(campaign: Campaign) -> Run:
        first_run = campaign.runs.order_by("position").first()
        assert first_run
        return first_run

    def ingested(campaign: Campaign) -> None:
        end_run(Run.objects.get(pk=run(campaign).pk), Run.Outcome.FAILED)

    def reread(campaign: Campaign) -> None:
        Run.objects.filter(pk=run(campaign).pk).update(ingested_at=None)

    def retried(campaign: Campaign) -> None:
        Run.objects.filter(pk=run(campaign).pk).update(outcome=Run.Outcome.FAILED)
        again(campaign).table()
        lifecycle.retry_failed(campaign, by=campaign.created_by)

    def extended(campaign: Campaign) -> None:
        lifecycle.extend_campaign(campaign, by=campaign.created_by, repetitions=1)

    def another_margin(campaign: Campaign) -> None:
        Campaign.objects.filter(pk=campaign.pk).update(delta=0.5)

    def another_metric(campaign: Campaign) -> None:
        Campaign.objects.filter(pk=campaign.pk).update(metric="latency_avg")

    def moved(campaign: Campaign) -> None:
        Run.objects.filter(pk=run(campaign).pk).update(host=make_host())

    def removed(campaign: Campaign) -> None:
        run(campaign).delete()

    functions = (ingested, reread, retried, extended, another_margin, another_metric, moved, removed)
    return {function.__name__: function for function in functions}


@pytest.mark.parametrize("change", changes().values(), ids=changes().keys())
def test_a_change_makes_another_key(campaign: Campaign, change: Any) -> None:
    before = again(campaign).key
    again(campaign).table()

    change(campaign)

    assert again(campaign).key != before
    fresh = queries.campaign_table(Campaign.objects.get(pk=campaign.pk))
    assert bare(again(campaign).table()) == bare(fresh)


@pytest.mark.parametrize("column", ["block", "position", "started_at"])
def test_a_change_of_a_run_of_an_older_release_makes_another_key(campaign: Campaign, column: str) -> None:
    """Its hash is 0, because the migration does not write runs."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE campaigns_run DISABLE TRIGGER run_content")
        cursor.execute("UPDATE campaigns_run SET content_hash = 0")
        cursor.execute("ALTER TABLE campaigns_run ENABLE TRIGGER run_content")
    before = again(campaign).key
    run = campaign.runs.order_by("position").first()
    assert run

    setattr(run, column, timezone.now() if column == "started_at" else 99)
    run.save()

    assert again(campaign).key != before


def test_a_run_that_is_saved_without_changes_keeps_the_key(campaign: Campaign) -> None:
    before = again(campaign).key

    for run in campaign.runs.all():
        run.step = "measure"
        run.save()

    assert again(campaign).key == before


def test_another_program_makes_another_key(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    before = again(campaign).key

    monkeypatch.setattr(campaign_cache, "program", lambda: "newer")

    assert again(campaign).key != before


def test_changes_of_other_fields_or_campaigns_do_not_change_the_cache_key(campaign: Campaign) -> None:
    before = again(campaign).key

    Campaign.objects.filter(pk=campaign.pk).update(name="another", priority=7)
    make_campaign(Campaign.State.FINISHED, by=campaign.created_by)

    assert again(campaign).key == before


def test_nothing_is_cached_for_a_host_without_runs_of_the_campaign(campaign: Campaign) -> None:
    other = make_host()

    CampaignCache(campaign, other.pk).table()
    CampaignCache(campaign, campaign.host_id).table()

    assert set(campaign.cached_answers.values_list("name", flat=True)) == {f"table on {campaign.host_id}"}


def test_a_figure_is_not_sent_twice(campaign: Campaign) -> None:
    client = Client()
    client.force_login(campaign.created_by)
    address = reverse("campaign_figure", args=[campaign.pk])

    first = client.get(address)
    second = client.get(address, headers={"If-None-Match": first["ETag"]})
    dark = client.get(f"{address}?theme=dark", headers={"If-None-Match": first["ETag"]})

    assert (first.status_code, second.status_code, dark.status_code) == (200, 304, 200)
    assert first.json()["data"] and not second.content


def test_the_api_has_the_points_that_pages_omit(campaign: Campaign) -> None:
    client = browser(campaign.created_by)
    address = f"/api/v1/campaigns/{campaign.pk}/results/"

    first, second = client.get(address).json(), client.get(address).json()

    assert first == second
    assert [len(level["points"]) for level in first["levels"]] == [5, 5]
    assert first["levels"][0]["quartiles"] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]


def test_a_run_of_a_large_campaign_fills_the_cache_for_pages(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_cache.fill(campaign)
    assert not CachedAnswer.objects.exists()

    monkeypatch.setattr(campaign_cache, "FILLED_FROM", 10)
    campaign_cache.fill(campaign)

    assert set(CachedAnswer.objects.values_list("name", flat=True)) == FILLED


def test_only_the_newest_queries_of_users_are_cached(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_cache, "MOST_ASKED", 2)
    computed: list[str] = []

    def ask(what: str) -> bytes:
        return again(campaign).cached_query(what, lambda: computed.append(what) or {"what": what})

    for what in ("x=1", "x=2", "x=2", "x=3", "x=1"):
        assert orjson.loads(ask(what)) == {"what": what}

    assert computed == ["x=1", "x=2", "x=3", "x=1"]
    assert campaign.cached_answers.count() == 2


def test_cached_values_are_json(campaign: Campaign) -> None:
    CampaignCache(campaign).table()

    value = orjson.loads(bytes(CachedAnswer.objects.get().value))

    assert value["metric"] == "tps" and value["levels"][0]["points"] == []

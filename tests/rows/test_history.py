"""The generator of history: the same rows from the same seed, and a consistent database."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import Count

from apps.accounts.models import AuditEntry
from apps.campaigns.models import Campaign, Run
from apps.results import queries
from apps.results.models import Measurement
from tests.rows import history

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BLOCKS", 3)


def quiet(line: str) -> None:
    """Nobody reads it here."""


def measurements() -> list[tuple[object, ...]]:
    rows = Measurement.objects.order_by("run__campaign__seed", "run__position", "step", "name")
    return list(rows.values_list("run_id", "run__cell", "run__outcome", "step", "name", "value"))


def test_the_same_seed_makes_the_same_history() -> None:
    history.fill(300, large=True, tell=quiet)
    first = measurements()
    Run.objects.all().delete()
    Campaign.objects.all().delete()

    history.fill(300, large=True, tell=quiet)

    assert measurements() == first and first


def test_a_history_grows_backwards_and_keeps_existing_rows() -> None:
    history.fill(200, large=False, tell=quiet)
    before = set(Run.objects.values_list("pk", flat=True))
    ended = Campaign.objects.filter(ended_at__isnull=False, recipe="").order_by("-ended_at")
    newest = list(ended.values_list("pk", flat=True))

    history.fill(400, large=True, tell=quiet)

    assert before < set(Run.objects.values_list("pk", flat=True))
    assert list(ended.values_list("pk", flat=True))[: len(newest)] == newest
    assert Run.objects.count() >= 400


def test_most_of_a_very_long_history_are_copies_from_earlier_years(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 600)

    history.fill(1000, large=True, tell=quiet)
    history.fill(2000, large=True, tell=quiet)

    assert Run.objects.count() >= 2000
    assert Campaign.objects.filter(recipe="cache-split").count() == 1
    names = Campaign.objects.order_by().values("name").annotate(times=Count("pk")).values_list("times", flat=True)
    assert max(names) >= 4 and min(names) == 1
    ended = Run.objects.filter(outcome="ok").annotate(figures=Count("measurements"))
    assert set(ended.order_by().values_list("figures", flat=True)) == {4, 5}


def test_every_constraint_holds_and_the_pages_can_read_it() -> None:
    history.fill(300, large=True, tell=quiet)

    with connection.cursor() as cursor:
        cursor.execute("set constraints all immediate")
    states = dict(Campaign.objects.order_by().values_list("state").annotate(Count("pk")))
    assert states["running"] == 2 and states["finished"] >= 2
    assert not Run.objects.filter(state="ended", outcome="").exists()
    large = Campaign.objects.get(recipe="cache-split")
    table = queries.campaign_table(large)
    assert (len(table.levels), large.runs.count()) == (54, 54 * 3)
    assert {level.planned for level in table.levels} == {3}
    assert AuditEntry.objects.filter(action="campaign.start").count() == Campaign.objects.count()

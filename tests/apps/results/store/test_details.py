"""The details of old runs are dropped month by month; results, and what a decision rests on, stay."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.models import AuditEntry, Role, User
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent
from apps.decisions import periodic
from apps.infrastructure import months
from apps.results.models import Block, Measurement, Series, StepStability
from apps.results.store import details
from tests.rows import populate

pytestmark = pytest.mark.django_db

MAY, JUNE = datetime(2019, 5, 10, 12, tzinfo=UTC), datetime(2019, 6, 10, 12, tzinfo=UTC)


@pytest.fixture
def operator() -> User:
    return populate.user(Role.TUNER)


@pytest.fixture
def old(operator: User) -> Campaign:
    """A campaign whose runs were made in May 2019."""
    months.add(MAY)
    campaign = populate.finished(operator, populate.host(), repetitions=2, failed=0, not_in_effect=0)
    move(campaign.runs.all(), MAY)
    return campaign


def move(runs: Any, at: datetime) -> None:
    """As if these runs had started and ended then."""
    RunEvent.objects.filter(run__in=runs).update(month=months.month_of(at))
    Block.objects.filter(series__run__in=runs).update(month=months.month_of(at))
    Run.objects.filter(pk__in=runs).update(started_at=at, ended_at=at + timedelta(minutes=1))


def drop() -> list[details.Month]:
    return details.drop_details(180, periodic.decided())


def results() -> list[Any]:
    models = (Measurement, StepStability, Artefact)
    return [sorted(str(row) for row in model.objects.values_list()) for model in models]


def test_event_logs_and_series_go_and_results_stay(old: Campaign) -> None:
    before, proofs = results(), list(old.runs.order_by("pk").values_list("proof", flat=True))

    drop()

    assert not RunEvent.objects.filter(run__campaign=old).exists()
    assert not Series.objects.exists() and not Block.objects.exists()
    assert results() == before
    assert list(old.runs.order_by("pk").values_list("proof", flat=True)) == proofs


def test_runs_of_a_younger_month_keep_their_details(old: Campaign) -> None:
    young = old.runs.order_by("position")[0]
    move(old.runs.filter(pk=young.pk), timezone.now() - timedelta(days=1))
    events = young.events.count()

    drop()

    assert young.events.count() == events > 0
    assert young.series.exists()


def test_a_month_stays_while_one_of_its_runs_is_young(old: Campaign) -> None:
    late = old.runs.order_by("position")[0]
    Run.objects.filter(pk=late.pk).update(ended_at=timezone.now() - timedelta(days=3))

    dropped = [each.month for each in drop()]

    assert months.month_of(MAY) not in dropped
    assert old.runs.order_by("position")[1].events.exists()
    assert details.old_months(180, periodic.decided())[0].obstacle.startswith(f"{late} ended on ")


def test_runs_on_which_a_decision_rests_keep_everything(old: Campaign, operator: User) -> None:
    populate.decision(operator, old)
    run = old.runs.order_by("position")[0]
    before = run.events.count(), run.series.count(), Block.objects.filter(series__run=run).count()

    drop()

    assert before == (run.events.count(), run.series.count(), Block.objects.filter(series__run=run).count())
    assert min(before) > 0
    assert set(run.events.values_list("month", flat=True)) == {months.KEPT}
    assert months.month_of(MAY) not in months.present()


def test_runs_from_before_there_were_months_lose_their_details_one_by_one(old: Campaign) -> None:
    RunEvent.objects.update(month=months.KEPT)
    Block.objects.update(month=months.KEPT)
    young = old.runs.order_by("position")[0]
    Run.objects.filter(pk=young.pk).update(ended_at=timezone.now())
    for table in months.TABLES:
        months.drop(table, months.month_of(MAY))

    drop()

    assert [run.pk for run in old.runs.all() if run.events.exists()] == [young.pk]
    assert set(Series.objects.values_list("run", flat=True)) == {young.pk}


def test_work_that_takes_too_long_goes_on_with_the_next_task(old: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "BATCH", 2)

    first = details.drop_details(180, periodic.decided(), until_s=0.0)

    assert first == []
    assert RunEvent.objects.filter(run__campaign=old).exists()
    assert 0 < Series.objects.values("run").distinct().count() < old.runs.count()
    assert drop()[0].runs == old.runs.count()
    assert not Series.objects.exists()


def test_the_audit_log_has_each_month(old: Campaign) -> None:
    drop()

    entry = AuditEntry.objects.get(action="details.drop", target="2019-05")
    assert (entry.actor, entry.after) == (None, {"runs": old.runs.count()})


@pytest.mark.parametrize(("days", "are_there"), [(0, True), (180, False)])
def test_without_a_configured_age_nothing_is_dropped(old: Campaign, settings: Any, days: int, are_there: bool) -> None:
    settings.RETAIN_DETAILS_DAYS = days

    periodic.drop_details_due()

    assert Series.objects.exists() == are_there


def test_a_dry_run_says_what_would_go_and_changes_nothing(old: Campaign) -> None:
    out = io.StringIO()

    call_command("drop_details", "--days", "180", "--dry-run", stdout=out)

    assert f"2019-05: details of {old.runs.count()} runs would be dropped" in out.getvalue()
    assert Series.objects.exists() and RunEvent.objects.filter(run__campaign=old).exists()


def test_an_age_of_no_days_is_refused() -> None:
    with pytest.raises(CommandError, match="--days: at least 1"):
        call_command("drop_details", "--days", "0")


@pytest.mark.parametrize("tab", ["chart", "settings", "commands", "log"])
def test_the_page_of_a_run_says_that_its_details_were_dropped(old: Campaign, client: Any, tab: str) -> None:
    client.force_login(populate.user(Role.VIEWER))
    run = old.runs.order_by("position")[0]
    drop()

    page = client.get(f"/runs/{run.pk}/?tab={tab}").content.decode()

    assert "details of this run were dropped" in page
    assert "not verified" not in page
    assert "has sent no events" not in page


def test_the_api_says_that_an_event_log_was_dropped(old: Campaign, client: Any) -> None:
    client.force_login(populate.user(Role.VIEWER))
    address = f"/api/v1/runs/{old.runs.order_by('position')[0].pk}/events/"
    before = client.get(address).json()

    drop()

    after = client.get(address).json()
    assert (before["dropped"], len(before["results"]) > 0) == (False, True)
    assert after == {"results": [], "next_after": 0, "ended": True, "dropped": True}

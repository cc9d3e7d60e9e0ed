"""Partitions of months: added before they begin, dropped as a whole, and never a row that is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction
from django.utils import timezone

from apps.campaigns.execution.jobs import insert_events
from apps.campaigns.models import Run, RunEvent
from apps.infrastructure import months
from apps.operation import runtime_role
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2019, 5, 17, 12, tzinfo=UTC)


@pytest.fixture
def run() -> Run:
    return make_campaign("running").runs.order_by("position")[0]


def event(seq: int) -> dict[str, Any]:
    return {"seq": seq, "at": timezone.now(), "kind": "log", "data": {"message": f"line {seq}"}}


def partition_of(run: Run) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("select tableoid::regclass::text from campaigns_runevent where run_id = %s", [run.pk])
        return {name for (name,) in cursor.fetchall()}


def exists(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select to_regclass(%s) is not null", [table])
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize(
    ("at", "month"),
    [
        (datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), date(2026, 11, 1)),
        (datetime.fromisoformat("2026-12-01T00:30:00+01:00"), date(2026, 11, 1)),
        (None, months.KEPT),
    ],
)
def test_a_month_begins_in_utc(at: datetime | None, month: date) -> None:
    assert months.month_of(at) == month


def test_the_month_after_december_is_january() -> None:
    assert months.after(date(2026, 12, 1)) == date(2027, 1, 1)
    assert months.after(date(2026, 11, 1), 14) == date(2028, 1, 1)


def test_this_month_and_the_next_two_have_partitions_once_they_were_added() -> None:
    months.add(LONG_AGO)

    assert months.present()[:3] == [date(2019, 5, 1), date(2019, 6, 1), date(2019, 7, 1)]
    assert months.add(LONG_AGO) == []
    assert months.add(LONG_AGO + timedelta(days=31)) == [date(2019, 8, 1)]


def test_all_events_of_a_run_are_in_the_partition_of_its_start(run: Run) -> None:
    months.add(LONG_AGO)
    run.started_at = LONG_AGO

    insert_events(run, [event(1)])
    insert_events(run, [event(2)])

    assert partition_of(run) == {"campaigns_runevent_2019_05"}
    assert [each.seq for each in run.events.all()] == [1, 2]


def test_an_event_of_a_month_without_a_partition_is_stored(run: Run) -> None:
    run.started_at = LONG_AGO

    insert_events(run, [event(1)])

    assert partition_of(run) == {"campaigns_runevent_other"}


def test_a_month_whose_events_are_elsewhere_gets_no_partition_for_them(run: Run) -> None:
    run.started_at = LONG_AGO
    insert_events(run, [event(1)])

    months.add(LONG_AGO)

    assert not exists("campaigns_runevent_2019_05")
    assert exists("campaigns_runevent_2019_06") and exists("results_blocks_2019_05")


def test_an_event_without_a_month_as_the_last_release_writes_it_is_kept(run: Run) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into campaigns_runevent (run_id, seq, at, kind, data) values (%s, 1, now(), 'log', '{}')", [run.pk]
        )

    assert partition_of(run) == {"campaigns_runevent_kept"}


def test_a_dropped_month_takes_its_events_and_no_others(run: Run) -> None:
    months.add(LONG_AGO)
    other = run.campaign.runs.exclude(pk=run.pk)[0]
    run.started_at, other.started_at = LONG_AGO, LONG_AGO + timedelta(days=31)
    insert_events(run, [event(1)])
    insert_events(other, [event(1)])

    months.drop(months.EVENTS, date(2019, 5, 1))

    assert (run.events.count(), other.events.count()) == (0, 1)
    assert not exists("campaigns_runevent_2019_05")


def test_a_month_that_has_not_ended_is_not_dropped() -> None:
    present = months.month_of(timezone.now())

    with pytest.raises(match="has not ended"), transaction.atomic():
        months.drop(months.EVENTS, present)

    assert present in months.present()


@pytest.mark.parametrize(
    ("table", "month"), [("accounts_user", date(2019, 5, 1)), (months.TABLES[0], date(2019, 5, 2))]
)
@pytest.mark.parametrize("function", ["proving_add_month", "proving_drop_month"])
def test_the_functions_touch_no_other_table_and_no_part_of_a_month(function: str, table: str, month: date) -> None:
    with pytest.raises(match="can begin on"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"select {function}(%s, %s)", [table, month])


def test_the_role_of_the_server_adds_and_drops_months_but_not_tables(run: Run) -> None:
    runtime_role.prepare("months_server")
    with connection.cursor() as cursor:
        cursor.execute("set local role months_server")
        months.add(LONG_AGO)
        run.started_at = LONG_AGO
        insert_events(run, [event(1)])
        assert RunEvent.objects.filter(run=run).count() == 1
        months.analyze()
        months.drop(months.EVENTS, date(2019, 5, 1))

        with pytest.raises(ProgrammingError, match="must be owner"), transaction.atomic():
            cursor.execute("drop table campaigns_runevent_2019_06")
        cursor.execute("reset role")


def test_a_role_without_the_right_cannot_call_the_functions() -> None:
    with connection.cursor() as cursor:
        cursor.execute("create role months_stranger")
        cursor.execute("set local role months_stranger")

        with pytest.raises(ProgrammingError, match="permission denied for function"), transaction.atomic():
            months.add(LONG_AGO)
        cursor.execute("reset role")

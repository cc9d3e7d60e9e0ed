"""The next run on a host, its expected start, and the reason of its wait."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import AuditEntry, Role, User
from apps.campaigns import services, tasks
from apps.campaigns.execution import claims, dispatch, queue
from apps.campaigns.execution.schedule import schedule, waiting_reasons
from apps.campaigns.execution.supervision import Supervision
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts.models import Host
from apps.hosts.usage import reservations
from common.errors import PlanError
from tests.rows.factories import browser, end_run, make_campaign, make_host, make_user
from tests.servers import campaigns

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)  # a Monday
NIGHTS = [{"days": [0, 1, 2, 3, 4], "from": "20:00", "to": "06:00"}]


@pytest.fixture
def bench(db: None) -> Host:
    return make_host("bench")


def started(host: Host, name: str, **fields: object) -> Campaign:
    return make_campaign(Campaign.State.RUNNING, host=host, name=name, **fields)  # type: ignore[arg-type]


def armed() -> Run | None:
    return Run.objects.filter(next_tick_at__isnull=False).first()


def disarm(host: Host) -> None:
    Run.objects.filter(host=host).update(next_tick_at=None)


def test_the_first_campaign_in_the_queue_runs_first(bench: Host) -> None:
    first = started(bench, "first")
    started(bench, "second")

    assert armed() == first.runs.order_by("position")[0]


def test_a_run_that_waits_for_a_worker_is_enqueued_once(bench: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr("apps.infrastructure.waking.send", lambda _, run_id: sent.append(run_id))
    run = started(bench, "first").runs.order_by("position")[0]
    sent.clear()

    for _ in range(5):
        tasks.enqueue_due()

    assert sent == [str(run.pk)]


def test_without_a_cache_every_run_that_is_due_is_called(
    bench: Host, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("apps.infrastructure.waking.send", lambda _, run_id: sent.append(run_id))
    started(bench, "first")
    sent.clear()
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    }

    tasks.enqueue_due()
    tasks.enqueue_due()

    assert len(sent) == 2


def test_the_highest_priority_goes_first(bench: Host, operator: User) -> None:
    started(bench, "first")
    urgent = started(bench, "urgent", priority=5)
    disarm(bench)

    queue.arm_host(bench.pk)

    assert armed() == urgent.runs.order_by("position")[0]


@pytest.mark.django_db(transaction=True)
def test_a_run_that_ends_while_it_is_cancelled_takes_no_row_before_its_campaigns(bench: Host) -> None:
    run = started(bench, "first").runs.order_by("position")[0]
    assert run.claim_tick(60)
    failed = threading.Thread(target=_end_and_close, args=[run])

    with transaction.atomic():
        Campaign.objects.select_for_update().get(pk=run.campaign_id)  # as who cancels it does first
        failed.start()
        _await_a_waiting_transaction()
        Run.objects.select_for_update(nowait=True).get(pk=run.pk)  # and then this
    failed.join(10)

    run.refresh_from_db()
    assert run.outcome == Run.Outcome.FAILED


def _end_and_close(run: Run) -> None:
    supervision = Supervision(run, ExitStack(), time.monotonic())
    supervision.jobs.own.rejected = PlanError("run", "it was refused")
    supervision._close(is_cancelled=False)
    connection.close()


def _await_a_waiting_transaction() -> None:
    deadline = time.monotonic() + 60
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute("select count(*) from pg_locks where not granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.02)
    raise AssertionError("nobody waits")


def test_the_priority_of_a_campaign_changes_while_it_runs(bench: Host, operator: User) -> None:
    first, second = started(bench, "first"), started(bench, "second")
    end_run(first.runs.order_by("position")[0])

    services.set_priority(second, 3, by=operator)
    queue.arm_host(bench.pk)

    assert armed() == second.runs.order_by("position")[0]
    assert AuditEntry.objects.get(action="campaign.priority").after["priority"] == 3


def test_nothing_can_be_moved_in_a_queue_that_it_has_left(bench: Host, operator: User) -> None:
    done = make_campaign(Campaign.State.FINISHED, host=bench)

    with pytest.raises(PlanError, match="finished"):
        services.set_priority(done, 3, by=operator)


def test_no_run_begins_on_a_host_that_is_reserved(bench: Host) -> None:
    ana = make_user(Role.OPERATOR, "ana")
    reservations.reserve(bench, timezone.now() + HOUR, "firmware update", by=ana)

    campaign = started(bench, "first")

    assert armed() is None
    why = queue.hindrance(bench, campaign.runs.order_by("position")[0], timezone.now())
    assert why.startswith("reserved by ana until ")
    assert why.endswith(": firmware update")


def test_queued_runs_continue_when_the_reservation_is_released(bench: Host) -> None:
    ana = make_user(Role.OPERATOR, "ana")
    reservations.reserve(bench, timezone.now() + HOUR, "firmware update", by=ana)
    campaign = started(bench, "first")

    reservations.give_up(bench, by=ana)
    queue.arm_idle_hosts()

    assert armed() == campaign.runs.order_by("position")[0]


def test_a_run_that_was_armed_before_the_reservation_does_not_begin(bench: Host, operator: User) -> None:
    campaign = started(bench, "first")
    run = armed()
    assert run is not None
    reservations.reserve(bench, timezone.now() + HOUR, "mine", by=operator)

    dispatch.tick(run)

    run.refresh_from_db()
    assert (run.state, run.next_tick_at) == (Run.State.QUEUED, None)
    assert campaign.runs.filter(state=Run.State.QUEUED).count() == campaign.runs.count()


@pytest.mark.parametrize("state", [Host.State.QUARANTINED, Host.State.UNFIT])
def test_no_run_begins_on_a_host_that_is_out_of_service(bench: Host, state: str) -> None:
    campaign = make_campaign(host=bench)
    services.start_campaign(campaign, by=make_user(Role.OPERATOR))
    disarm(bench)
    Host.objects.filter(pk=bench.pk).update(state=state, state_reason="the disk is full")

    queue.arm_host(bench.pk)

    assert armed() is None


def test_outside_of_its_windows_nothing_begins(bench: Host) -> None:
    bench.windows = NIGHTS
    run = started(make_host(), "elsewhere").runs.order_by("position")[0]

    assert queue.hindrance(bench, run, NOON) == "outside its maintenance windows: the next one begins 20:00 UTC"
    assert queue.hindrance(bench, run, NOON + 9 * HOUR) == ""


def test_a_run_that_does_not_fit_into_the_rest_waits_for_the_next_window(bench: Host) -> None:
    bench.windows = NIGHTS
    campaign = started(make_host(), "elsewhere")
    first, second = (campaign.runs.filter(cell=campaign.runs.order_by("position")[0].cell).order_by("position"))[:2]
    almost_six = NOON + 17 * HOUR + timedelta(minutes=40)
    assert queue.hindrance(bench, second, almost_six) == ""

    end_run(first, wall_s=1800)

    why = queue.hindrance(bench, second, almost_six)
    assert why == "the rest of its maintenance window is too short for the next run: the next one begins 20:00 UTC"


def test_the_windows_of_a_host_hold_for_its_queue(bench: Host, admin: User) -> None:
    now = timezone.now()
    in_two_hours, in_three = ((now + hours * HOUR).strftime("%H:%M") for hours in (2, 3))
    browser(admin).patch(
        f"/api/v1/hosts/{bench.pk}/",
        {"windows": [{"days": list(range(7)), "from": in_two_hours, "to": in_three}], "time_zone": "UTC"},
    )

    started(bench, "first")

    assert armed() is None
    queue = browser(admin).get(f"/api/v1/hosts/{bench.pk}/queue/").json()
    assert queue["why"].startswith("outside its maintenance windows: the next one begins")
    assert queue["waiting"][0]["begins"][11:16] == in_two_hours


def test_the_queue_is_listed_in_order_with_expected_begins(bench: Host) -> None:
    now = timezone.now()
    first, urgent = started(bench, "first"), started(bench, "urgent", priority=1)
    for each in (first, urgent):
        end_run(each.runs.order_by("position")[0], wall_s=60)

    queue = schedule(bench, now)

    assert [(each.campaign, each.runs) for each in queue.waiting] == [(urgent, 5), (first, 5)]
    assert [round((each.begins - now).total_seconds()) for each in queue.waiting if each.begins] == [0, 300]
    assert round(((queue.waiting[1].ends or now) - now).total_seconds()) == 600


def test_the_expected_begin_waits_for_the_run_that_is_under_way(bench: Host) -> None:
    campaign = started(bench, "first")
    runs = list(campaign.runs.order_by("position"))
    end_run(runs[0], wall_s=100)
    now = timezone.now()
    Run.objects.filter(pk=runs[1].pk).update(state=Run.State.RUNNING, started_at=now - timedelta(seconds=1))

    queue = schedule(bench, now)

    assert queue.active == runs[1]
    assert queue.why == ""
    begins = queue.waiting[0].begins
    assert begins is not None
    assert begins == queue.active_ends
    assert begins > now


def test_a_run_on_a_host_that_is_not_ready_has_no_expected_start(bench: Host) -> None:
    started(bench, "first")
    Host.objects.filter(pk=bench.pk).update(state=Host.State.UNFIT, state_reason="clock: 9 s")
    bench.refresh_from_db()

    queue = schedule(bench, timezone.now())

    assert queue.waiting[0].begins is None
    assert queue.why == "bench is not ready: clock: 9 s"


def test_a_run_that_no_dispatcher_claims_has_a_reason(bench: Host) -> None:
    campaign = started(bench, "first")
    now = timezone.now()
    campaign.runs.exclude(next_tick_at=None).update(next_tick_at=now)

    campaign.runs.exclude(next_tick_at=None).update(claimed_until=now + timedelta(seconds=50))

    reasons = [schedule(bench, now + timedelta(seconds=late)).why for late in (5, 45, 60, 90_000)]

    message = "no dispatcher has claimed it for {} s; check that one is running"
    assert reasons == ["", "", message.format(60), message.format(90_000)]
    campaign.runs.update(error={"message": "no turn to connect within 60 s"})
    assert schedule(bench, now).why == "no turn to connect within 60 s"


@pytest.mark.parametrize("written", ["next_tick_at", "claimed_until"])
def test_a_run_does_not_wait_until_a_clock_that_was_set_back_is_where_it_was(bench: Host, written: str) -> None:
    started(bench, "first")
    now = timezone.now()
    armed_runs = Run.objects.exclude(next_tick_at=None)
    armed_runs.update(**{written: now + timedelta(seconds=15)})
    assert not Run.objects.due(now).exists()

    armed_runs.update(**{written: now + timedelta(hours=1)})

    assert Run.objects.due(now).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_reservation_does_not_stop_an_active_run(host: Host, admin: User) -> None:
    """On a real host: the run that is measured ends well, and the one behind it waits."""
    campaign = campaigns.start(host, admin, repetitions=2, time_s=2)
    run = armed()
    assert run is not None
    claims.FOLLOW_S, before = 1.0, claims.FOLLOW_S
    try:
        dispatch.tick(run)
    finally:
        claims.FOLLOW_S = before
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING

    reservations.reserve(host, timezone.now() + HOUR, "mine", by=admin)
    while run.state != Run.State.ENDED:
        dispatch.tick(run)
        run.refresh_from_db()

    assert run.outcome == Run.Outcome.OK, run.error
    assert armed() is None
    reservations.give_up(host, by=admin)
    assert campaigns.finish(campaign).runs.filter(outcome=Run.Outcome.OK).count() == campaign.runs.count()


def test_the_next_run_of_many_hosts_is_that_of_each() -> None:
    """Also of a host that a run on another one needs, and of hosts with several campaigns."""
    first, second, third, idle = (make_host(name) for name in ("first", "second", "third", "idle"))
    started(first, "long")
    started(first, "urgent", priority=5)
    started(second, "alone")
    beside = started(third, "beside").runs.order_by("position")[0]
    for position, needed in enumerate([first, second]):
        RunPart.objects.create(run=beside, host=needed, role="server", position=position, spec=beside.spec)
    Campaign.objects.filter(pk=beside.campaign_id).update(priority=9)
    hosts = [first, second, third, idle]
    for host in hosts:
        disarm(host)

    following = queue.next_runs(hosts)

    assert following == {host.pk: queue.waiting(host).first() for host in hosts[:3]}
    assert following[first.pk] == following[second.pk] == beside


def test_the_reasons_of_many_hosts_take_as_many_queries_as_those_of_one() -> None:
    hosts = [make_host(f"host-{number}") for number in range(8)]
    for host in hosts:
        started(host, host.name)
        disarm(host)
        reservations.reserve(host, timezone.now() + HOUR, "firmware update", by=make_user(Role.ADMIN))

    with CaptureQueriesContext(connection) as of_one:
        waiting_reasons(hosts[:1], timezone.now())
    with CaptureQueriesContext(connection) as of_all:
        reasons = waiting_reasons(hosts, timezone.now())

    assert len(of_all) == len(of_one)
    assert len(reasons) == 8
    assert all(reason.endswith(": firmware update") for reason in reasons.values())


def test_a_machine_with_two_names_is_reserved_under_both(admin: User) -> None:
    one, other, third = (make_host(name) for name in ("one", "other", "third"))
    Host.objects.filter(pk__in=[one.pk, other.pk]).update(machine_id="same")
    hosts = list(Host.objects.all())

    reserved = reservations.reserve(Host.objects.get(pk=one.pk), timezone.now() + HOUR, "disks", by=admin)

    assert reservations.in_force_on(hosts, timezone.now()) == {one.pk: reserved, other.pk: reserved}
    assert reservations.in_force(third, timezone.now()) is None

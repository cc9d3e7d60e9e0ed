"""Schedules over simulated time: the clock is an argument."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from apps.accounts.models import AuditEntry, Channel, Delivery, Role, Team, User
from apps.campaigns import lifecycle
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Campaign, Schedule, Slot
from apps.campaigns.schedules import firing, services, times
from apps.campaigns.services import cancel_campaign, start_campaign
from apps.hosts.models import Host
from common.errors import PlanError, RoleError
from tests.rows.factories import make_campaign, make_host, make_member, make_user

pytestmark = pytest.mark.django_db

WEEKDAYS = [{"days": [0, 1, 2, 3, 4], "from": "00:00", "to": "24:00"}]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def make_schedule(now: str, *, by: User | None = None, campaign: Campaign | None = None, **fields: Any) -> Schedule:
    by = by or make_user(Role.OPERATOR)
    all_fields = {"name": "nightly", "when": "daily 02:30", "time_zone": "UTC"} | fields
    return services.create_schedule(campaign or make_campaign(), by=by, now=at(now), **all_fields)


def finish(schedule: Schedule) -> None:
    """End the campaigns of a schedule, as their last runs would."""
    for campaign in Campaign.objects.filter(slot__schedule=schedule, state=Campaign.State.RUNNING):
        campaign.runs.update(state="ended", outcome="ok", next_tick_at=None)
        campaign_end.close_campaign(campaign.pk)


def beat(now: datetime) -> None:
    """What the beat and its workers do."""
    for key in firing.due(now):
        firing.fire(key, now)


def live(schedule: Schedule, since: str, until: str, *, down: Callable[[datetime], bool] = lambda now: False) -> None:
    """Every half an hour a beat, unless the server is down; campaigns end before noon."""
    now, step = at(since), timedelta(minutes=30)
    while now < at(until):
        if not down(now):
            beat(now)
        if now.hour == 11:
            finish(schedule)
        now += step


def outcomes_of(schedule: Schedule) -> list[tuple[str, str]]:
    """(when, what became of it), the oldest first, by the clock on the wall of the schedule."""
    zone = times.read(schedule.when, schedule.time_zone).zone
    return [(f"{slot.at.astimezone(zone):%m-%d %H:%M %Z}", slot.outcome) for slot in schedule.slots.order_by("at")]


@pytest.fixture
def channel(admin: User) -> Channel:
    kinds = ["schedule.missed", "schedule.stopped"]
    return Channel.objects.create(name="c", owner=admin, kind="mail", address="a@example.org", events=kinds)


@pytest.mark.thorough
def test_a_month_with_a_window_a_server_that_was_down_and_the_clock_put_forward(channel: Channel) -> None:
    schedule = make_schedule("2026-03-01 12:00", time_zone="Europe/Berlin", windows=WEEKDAYS)
    outage = (at("2026-03-10 20:00"), at("2026-03-12 09:00"))

    live(schedule, "2026-03-01 12:00", "2026-04-01 12:00", down=lambda now: outage[0] <= now < outage[1])

    outcomes = dict(outcomes_of(schedule))
    assert len(outcomes) == 31
    assert Counter(outcomes.values()) == {"started": 21, "skipped": 8, "missed": 2}
    assert [when for when, outcome in outcomes.items() if outcome == "missed"] == ["03-11 02:30 CET", "03-12 02:30 CET"]
    assert outcomes["03-28 02:30 CET"] == "skipped"  # a Saturday
    assert outcomes["03-29 03:00 CEST"] == "skipped"  # the Sunday on which 02:30 does not exist
    assert outcomes["03-30 02:30 CEST"] == "started"
    campaigns = Campaign.objects.filter(slot__schedule=schedule)
    assert campaigns.count() == 21
    assert set(campaigns.values_list("state", flat=True)) == {Campaign.State.FINISHED}
    assert len(set(campaigns.values_list("seed", flat=True))) == 21
    assert "nightly 2026-03-30 02:30" in campaigns.values_list("name", flat=True)
    # One alert for both times: it came when the server was back.
    assert [each.subject for each in Delivery.objects.all()] == [
        "nightly missed 2 times, the last one at 2026-03-12 02:30 CET"
    ]
    assert schedule.slots.filter(outcome="missed").first().reason.startswith("the server was down until 10:00 CET")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("zone", "days", "when", "expected"),
    [
        (
            "Europe/Berlin",
            ("2026-03-28", "2026-03-30"),
            "daily 02:30",
            ["03-29 03:00 CEST", "03-30 02:30 CEST"],
        ),
        (
            "Europe/Berlin",
            ("2026-10-24", "2026-10-26"),
            "daily 02:30",
            ["10-25 02:30 CEST", "10-26 02:30 CET"],
        ),
        (
            "America/New_York",
            ("2026-03-07", "2026-03-09"),
            "daily 02:30",
            ["03-08 03:00 EDT", "03-09 02:30 EDT"],
        ),
        (
            "America/New_York",
            ("2026-10-31", "2026-11-02"),
            "daily 01:30",
            ["11-01 01:30 EDT", "11-02 01:30 EST"],
        ),
    ],
)
def test_a_change_of_the_clock_starts_one_campaign_a_day(
    zone: str, days: tuple[str, str], when: str, expected: list[str]
) -> None:
    since, until = (f"{day} 12:00" for day in days)
    schedule = make_schedule(since, time_zone=zone, when=when)

    live(schedule, since, until)

    assert outcomes_of(schedule) == [(each, "started") for each in expected]
    assert Campaign.objects.filter(slot__schedule=schedule).count() == len(expected)


def test_a_time_within_the_grace_period_starts_late_and_once(channel: Channel) -> None:
    schedule = make_schedule("2026-05-01 00:00", late_by_min=30)

    beat(at("2026-05-01 02:59"))
    beat(at("2026-05-01 03:01"))

    assert outcomes_of(schedule) == [("05-01 02:30 UTC", "started")]
    assert not Delivery.objects.exists()


def test_a_time_after_the_grace_period_is_missed_and_reported_once(channel: Channel) -> None:
    schedule = make_schedule("2026-05-01 00:00", late_by_min=30)

    beat(at("2026-05-01 03:01"))
    beat(at("2026-05-01 03:02"))

    assert outcomes_of(schedule) == [("05-01 02:30 UTC", "missed")]
    assert [each.kind for each in Delivery.objects.all()] == ["schedule.missed"]
    assert not Campaign.objects.filter(slot__schedule=schedule).exists()


def test_a_year_without_a_server_records_its_newest_times_only() -> None:
    schedule = make_schedule("2026-05-01 00:00", when="cron 0 * * * *")

    beat(at("2027-05-01 00:50"))

    assert schedule.slots.count() == firing.MOST_MISSED
    assert schedule.slots.first().at == at("2027-05-01 00:00")
    schedule.refresh_from_db()
    assert schedule.next_at == at("2027-05-01 01:00")


@pytest.mark.parametrize("paused", [False, True])
def test_a_time_is_skipped_while_the_previous_campaign_runs(paused: bool) -> None:
    schedule = make_schedule("2026-05-01 00:00")
    beat(at("2026-05-01 02:30"))
    if paused:
        Campaign.objects.filter(slot__schedule=schedule).update(state=Campaign.State.PAUSED)

    beat(at("2026-05-02 02:30"))
    finished = Campaign.objects.filter(slot__schedule=schedule).update(state=Campaign.State.FINISHED)
    beat(at("2026-05-03 02:30"))

    assert finished == 1
    assert [outcome for _, outcome in outcomes_of(schedule)] == ["started", "skipped", "started"]
    skipped = schedule.slots.get(outcome="skipped")
    assert skipped.reason == f"nightly 2026-05-01 02:30 {'is paused' if paused else 'still runs'}"


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (Host.State.QUARANTINED, "quarantined"),
        (Host.State.UNFIT, "not ready"),
        (Host.State.UNREACHABLE, "unreachable"),
    ],
)
def test_a_time_is_skipped_while_a_host_is_out_of_service(state: str, word: str) -> None:
    host = make_host("bench-09")
    schedule = make_schedule("2026-05-01 00:00", campaign=make_campaign(host=host))
    Host.objects.filter(pk=host.pk).update(state=state, state_reason="disk full")

    beat(at("2026-05-01 02:30"))

    assert schedule.slots.get().outcome == "skipped"
    assert schedule.slots.get().reason == f"bench-09 is {word}: disk full"


@pytest.mark.parametrize("lost", ["role", "account", "team"])
def test_a_schedule_stops_when_its_owner_may_not_start_campaigns_any_more(lost: str, channel: Channel) -> None:
    team = Team.objects.create(name="storage")
    owner = make_member(team, Role.OPERATOR) if lost == "team" else make_user(Role.OPERATOR, "kim")
    campaign = make_campaign(host=make_host(team=team if lost == "team" else None), by=make_user(Role.ADMIN))
    schedule = make_schedule("2026-05-01 00:00", by=owner, campaign=campaign)
    if lost == "team":
        owner.memberships.all().delete()
    else:
        changed = {"role": Role.VIEWER} if lost == "role" else {"is_active": False}
        User.objects.filter(pk=owner.pk).update(**changed)

    beat(at("2026-05-01 02:30"))
    beat(at("2026-05-02 02:30"))

    schedule.refresh_from_db()
    assert (schedule.state, schedule.next_at) == (Schedule.State.STOPPED, None)
    assert schedule.state_reason
    slot = schedule.slots.get()
    assert (slot.outcome, slot.reason) == ("skipped", f"the schedule stopped: {schedule.state_reason}")
    assert [each.kind for each in Delivery.objects.all()] == ["schedule.stopped"]
    assert AuditEntry.objects.filter(action="schedule.stop", actor=None).count() == 1
    assert Campaign.objects.filter(cloned_from=campaign).count() == 0


def test_the_user_who_resumes_a_stopped_schedule_owns_it(tuner: User) -> None:
    owner = make_user(Role.OPERATOR)
    schedule = make_schedule("2026-05-01 00:00", by=owner)
    User.objects.filter(pk=owner.pk).update(is_active=False)
    beat(at("2026-05-01 02:30"))
    schedule.refresh_from_db()

    services.resume_schedule(schedule, by=tuner, now=at("2026-05-01 09:00"))
    beat(at("2026-05-02 02:30"))

    started = schedule.slots.get(outcome="started").campaign
    assert (schedule.owner, schedule.state) == (tuner, Schedule.State.ACTIVE)
    assert (started.created_by, started.started_by) == (tuner, tuner)


def test_a_campaign_that_cannot_be_planned_any_more_is_refused_and_reported(channel: Channel) -> None:
    schedule = make_schedule("2026-05-01 00:00")
    newest = schedule.campaign.host.facts_history.first()
    newest.data["cpus"] |= {"online": "0", "allowed": "0", "topology": newest.data["cpus"]["topology"][:1]}
    newest.save()

    beat(at("2026-05-01 02:30"))

    slot = schedule.slots.get()
    assert slot.outcome == "refused"
    assert "cpu" in slot.reason.lower()
    assert [each.kind for each in Delivery.objects.all()] == ["schedule.missed"]
    schedule.refresh_from_db()
    assert schedule.state == Schedule.State.ACTIVE


def test_a_worker_that_dies_before_the_start_leaves_it_to_the_next_one() -> None:
    schedule = make_schedule("2026-05-01 00:00")
    firing.decide(schedule.pk, at("2026-05-01 02:30"))  # it dies here

    beat(at("2026-05-01 02:33"))

    slot = schedule.slots.get()
    assert (slot.outcome, slot.campaign.state) == ("started", Campaign.State.RUNNING)


def test_a_worker_that_dies_after_the_start_is_not_repeated() -> None:
    schedule = make_schedule("2026-05-01 00:00")
    now = at("2026-05-01 02:30")
    firing.decide(schedule.pk, now)
    slot = schedule.slots.get()
    start_campaign(slot.campaign, by=schedule.owner)  # it dies here, with the slot claimed
    Slot.objects.update(claimed_until=now + lifecycle.CLAIM)

    beat(at("2026-05-01 02:31"))
    claimed = schedule.slots.get().outcome
    beat(at("2026-05-01 02:33"))

    assert (claimed, schedule.slots.get().outcome) == ("starting", "started")
    assert slot.campaign.runs.count() == 6


def test_a_draft_whose_start_comes_too_late_is_cancelled_and_missed(channel: Channel) -> None:
    schedule = make_schedule("2026-05-01 00:00", late_by_min=30)
    firing.decide(schedule.pk, at("2026-05-01 02:30"))

    beat(at("2026-05-01 08:00"))

    slot = schedule.slots.get()
    assert (slot.outcome, slot.campaign.state) == ("missed", Campaign.State.CANCELLED)
    assert [each.kind for each in Delivery.objects.all()] == ["schedule.missed"]


def test_a_draft_that_a_user_cancelled_is_skipped(admin: User) -> None:
    schedule = make_schedule("2026-05-01 00:00")
    firing.decide(schedule.pk, at("2026-05-01 02:30"))
    cancel_campaign(schedule.slots.get().campaign, by=admin)

    beat(at("2026-05-01 02:31"))

    assert schedule.slots.get().outcome == "skipped"


def test_the_database_refuses_a_second_slot_of_one_time() -> None:
    schedule = make_schedule("2026-05-01 00:00")
    beat(at("2026-05-01 03:30"))

    with pytest.raises(IntegrityError, match="slot_once"), transaction.atomic():
        Slot.objects.create(schedule=schedule, at=at("2026-05-01 02:30"), outcome="missed", decided_at=at("2026-05-02"))


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_two_beats_at_once_start_one_campaign() -> None:
    schedule = make_schedule("2026-05-01 00:00")
    barrier = threading.Barrier(4)

    def work(now: datetime) -> None:
        try:
            barrier.wait()
            beat(now)
        finally:
            connection.close()

    for day in range(1, 7):
        workers = [threading.Thread(target=work, args=[at(f"2026-05-{day:02} 02:30")]) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        finish(schedule)

    slots = list(schedule.slots.order_by("at"))
    assert [(slot.at.day, slot.outcome) for slot in slots] == [(day, "started") for day in range(1, 7)]
    clones = Campaign.objects.filter(cloned_from=schedule.campaign)
    assert {slot.campaign_id for slot in slots} == set(clones.values_list("pk", flat=True))
    assert all(clone.runs.count() == 6 for clone in clones)


def test_a_pause_misses_no_time_and_a_resumed_schedule_continues_with_its_next_time(tuner: User) -> None:
    schedule = make_schedule("2026-05-01 00:00")
    services.pause_schedule(schedule, by=tuner)
    beat(at("2026-05-02 12:00"))

    services.resume_schedule(schedule, by=tuner, now=at("2026-05-03 12:00"))
    beat(at("2026-05-04 02:30"))

    assert outcomes_of(schedule) == [("05-04 02:30 UTC", "started")]


def test_a_deleted_schedule_starts_nothing_and_keeps_its_history(tuner: User) -> None:
    schedule = make_schedule("2026-05-01 00:00")
    beat(at("2026-05-01 02:30"))

    services.delete_schedule(schedule, by=tuner)
    beat(at("2026-05-02 02:30"))

    assert outcomes_of(schedule) == [("05-01 02:30 UTC", "started")]
    with pytest.raises(PlanError, match="was deleted"):
        services.resume_schedule(schedule, by=tuner)
    assert make_schedule("2026-05-02 12:00").name == schedule.name  # its name is free again


def test_a_changed_time_never_comes_a_second_time(tuner: User) -> None:
    schedule = make_schedule("2026-05-01 00:00")
    beat(at("2026-05-01 02:30"))

    changed = services.change_schedule(schedule, by=tuner, when="daily 02:30", now=at("2026-05-01 02:00"))

    assert changed.next_at == at("2026-05-02 02:30")
    assert changed.owner == tuner


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"when": "often"}, "when"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"windows": [{"days": [9], "from": "1", "to": "2"}]}, "windows.0.days"),
        ({"late_by_min": 0}, "late_by_min"),
        ({"name": ""}, "name"),
    ],
)
def test_an_invalid_value_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        make_schedule("2026-05-01 00:00", **fields)

    assert refused.value.subject == field


def test_a_name_is_taken_once() -> None:
    make_schedule("2026-05-01 00:00")

    with pytest.raises(PlanError, match="Another schedule has this name"):
        make_schedule("2026-05-01 00:00")


def test_a_viewer_creates_no_schedule(viewer: User) -> None:
    with pytest.raises(RoleError):
        make_schedule("2026-05-01 00:00", by=viewer)

"""A schedule from the command line, with a running server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from apps.accounts.models import Role, User
from apps.campaigns.models import Schedule, Slot
from tests.cli.program import Program
from tests.rows.factories import make_campaign, make_host, make_schedule

pytestmark = pytest.mark.thorough


@pytest.fixture
def nightly(people: dict[Role, User]) -> Schedule:
    campaign = make_campaign(host=make_host("db1"), name="Cpus", by=people[Role.ADMIN])
    return make_schedule(campaign, by=people[Role.ADMIN], name="nightly", when="daily 2:30", time_zone="Europe/Berlin")


def test_a_campaign_is_put_on_a_schedule_and_listed(proving: Program, people: dict[Role, User]) -> None:
    campaign = make_campaign(host=make_host("db1", time_zone="Europe/Berlin"), name="Cpus")

    made = proving.json("schedule", "create", "Cpus", "--name", "nightly", "--when", "daily 2:30", "--late", "45")

    schedule = Schedule.objects.get(pk=made["id"])
    assert (schedule.campaign, schedule.when, schedule.late_by_min) == (campaign, "daily 02:30", 45)
    assert (schedule.time_zone, schedule.owner) == ("Europe/Berlin", people[Role.TUNER])
    assert len(made["next"]) == 3
    assert "nightly" in proving.run("ls", "schedules").stdout


def test_an_invalid_schedule_is_refused_with_the_accepted_forms(proving: Program) -> None:
    make_campaign(name="Cpus")

    refused = proving.run("schedule", "create", "Cpus", "--name", "nightly", "--when", "often")

    assert refused.returncode != 0
    assert "is not a valid time of a schedule" in refused.stderr
    assert not Schedule.objects.exists()


def test_a_schedule_is_shown_with_its_next_times_and_the_outcome_of_the_last(
    proving: Program, nightly: Schedule
) -> None:
    at = datetime(2026, 7, 1, 0, 30, tzinfo=UTC)
    reason = "db1 is quarantined"
    Slot.objects.create(schedule=nightly, at=at, outcome=Slot.Outcome.SKIPPED, reason=reason, decided_at=at)

    shown = proving.json("schedule", "show", "nightly")
    text = proving.run("schedule", "show", str(nightly.pk)[:8]).stdout

    assert (shown["id"], shown["state"], len(shown["next"])) == (str(nightly.pk), "active", 3)
    assert [(slot["outcome"], slot["reason"]) for slot in shown["slots"]] == [("skipped", reason)]
    assert "nightly: active, daily 02:30 Europe/Berlin" in text
    assert "2026-07-01 02:30 CEST" in text


def test_a_schedule_is_paused_and_resumed_by_its_new_owner(
    proving: Program, nightly: Schedule, people: dict[Role, User]
) -> None:
    paused = proving.run("schedule", "pause", "nightly")
    nightly.refresh_from_db()
    assert (paused.returncode, nightly.state, nightly.next_at) == (0, "paused", None)
    assert "nightly: paused" in paused.stdout

    resumed = proving.json("schedule", "resume", "nightly")

    nightly.refresh_from_db()
    assert (resumed["state"], resumed["owner"]) == ("active", people[Role.TUNER].username)
    assert (nightly.state, nightly.owner) == ("active", people[Role.TUNER])


def test_a_deleted_schedule_is_no_longer_listed_and_its_campaign_remains(proving: Program, nightly: Schedule) -> None:
    deleted = proving.json("schedule", "delete", "nightly")

    assert (deleted["id"], deleted["state"]) == (str(nightly.pk), "deleted")
    assert proving.json("ls", "schedules") == []
    assert proving.run("show", "Cpus").returncode == 0


def test_an_action_that_is_impossible_in_the_state_of_a_schedule_is_refused_with_the_state(
    proving: Program, nightly: Schedule
) -> None:
    refused = proving.run("schedule", "resume", "nightly")

    assert refused.returncode == 2
    assert "nightly is active" in refused.stderr


def test_an_unknown_schedule_is_refused_with_the_known_ones(proving: Program, nightly: Schedule) -> None:
    refused = proving.run("schedule", "pause", "weekly")

    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "error: no schedule matches",
        "  field: SCHEDULE",
        "  value: weekly",
        f"  accepted: {str(nightly.pk)[:8]} nightly",
    ]


def test_a_viewer_cannot_pause_a_schedule(program: Callable[..., Program], nightly: Schedule) -> None:
    assert program(Role.VIEWER).run("schedule", "pause", "nightly").returncode == 4

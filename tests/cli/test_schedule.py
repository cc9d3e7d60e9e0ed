"""A schedule from the command line, against a server that listens."""

from __future__ import annotations

from apps.accounts.models import Role, User
from apps.campaigns.models import Schedule
from tests.cli.program import Program
from tests.factories import make_campaign, make_host


def test_a_campaign_is_put_on_a_schedule_and_listed(proving: Program, people: dict[Role, User]) -> None:
    campaign = make_campaign(host=make_host("db1", time_zone="Europe/Berlin"), name="Cpus")

    made = proving.json("schedule", "Cpus", "--name", "nightly", "--when", "daily 2:30", "--late", "45")

    schedule = Schedule.objects.get(pk=made["id"])
    assert (schedule.campaign, schedule.when, schedule.late_by_min) == (campaign, "daily 02:30", 45)
    assert (schedule.time_zone, schedule.owner) == ("Europe/Berlin", people[Role.TUNER])
    assert len(made["next"]) == 3
    assert "nightly" in proving.run("ls", "schedules").stdout


def test_what_is_no_schedule_is_refused_with_what_is_accepted(proving: Program) -> None:
    make_campaign(name="Cpus")

    refused = proving.run("schedule", "Cpus", "--name", "nightly", "--when", "often")

    assert refused.returncode != 0
    assert "is no schedule" in refused.stderr
    assert not Schedule.objects.exists()

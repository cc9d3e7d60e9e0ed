"""`proving schedule`: campaigns that repeat."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from proving import ids, tables
from proving.session import CampaignArgument, Json, Session, of

SLOTS = 10  # newest outcomes that `show` prints
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HELP = (
    "Create, show, pause, resume or delete a schedule, which repeats a campaign. List them with: proving ls schedules"
)
Name = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule, its id, or the beginning of its id.")
]


def create(
    ctx: typer.Context,
    campaign: CampaignArgument,
    when: Annotated[str, typer.Option(help='Times, such as "daily 02:30", "weekly Mon 02:30" or "cron 30 2 * * 1-5".')],
    name: Annotated[str, typer.Option(help="Name of the schedule. Its campaigns have this name, with the date.")],
    time_zone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone. Default: the host's.")] = "",
    late: Annotated[int, typer.Option(min=1, max=1440, help="Minutes by which a campaign may start late.")] = 30,
    json: Json = False,
) -> None:
    """Repeat a campaign: a clone with a new seed starts at each time."""
    session = of(ctx)
    body = {"campaign": ids.campaign(session.client, campaign), "name": name, "when": when, "late_by_min": late}
    _tell(session, session.client.post("schedules/", body | ({"time_zone": time_zone} if time_zone else {})))


def show(ctx: typer.Context, schedule: Name, json: Json = False) -> None:
    """Show a schedule, its next times, and what happened at its last times."""
    session = of(ctx)
    key = ids.schedule(session.client, schedule)
    details = session.client.get(f"schedules/{key}/")
    slots = list(session.client.rows(f"schedules/{key}/slots/", SLOTS))
    head, zone = ("time", "outcome", "campaign", "reason"), details["time_zone"]
    rows = [(_local(row["at"], zone), row["outcome"], (row["campaign"] or "")[:8], row["reason"]) for row in slots]
    past = [tables.table(head, rows)] if rows else []
    session.tell(details | {"slots": slots}, lambda: tables.below(tables.lines(*_lines(details)), *past))


def pause(ctx: typer.Context, schedule: Name, json: Json = False) -> None:
    """Pause a schedule: no campaign starts until you resume it. An active campaign continues."""
    _act(of(ctx), schedule, "pause")


def resume(ctx: typer.Context, schedule: Name, json: Json = False) -> None:
    """Resume a paused or stopped schedule. You own it from then on."""
    _act(of(ctx), schedule, "resume")


def delete(ctx: typer.Context, schedule: Name, json: Json = False) -> None:
    """Delete a schedule. This cannot be undone. Its campaigns and their results remain."""
    session = of(ctx)
    key = ids.schedule(session.client, schedule)
    session.client.delete(f"schedules/{key}/")
    _tell(session, session.client.get(f"schedules/{key}/"))


def _act(session: Session, schedule: str, verb: str) -> None:
    _tell(session, session.client.post(f"schedules/{ids.schedule(session.client, schedule)}/{verb}/"))


def _tell(session: Session, schedule: dict[str, Any]) -> None:
    session.tell(schedule, lambda: tables.lines(*_lines(schedule)))


def _lines(schedule: dict[str, Any]) -> list[str]:
    """The state, what is repeated, and the next times."""
    windows = ", ".join(_window(window) for window in schedule["windows"])
    return [
        f"{schedule['name']}: {schedule['state']}, {schedule['when']} {schedule['time_zone']}",
        schedule["state_reason"],
        f"repeats campaign {schedule['campaign'][:8]} on {schedule['host_name']}; owner {schedule['owner']}",
        f"starts only in the window {windows}" if windows else "",
        *(f"next {_local(at, schedule['time_zone'])}" for at in schedule["next"]),
    ]


def _window(window: dict[str, Any]) -> str:
    days = " ".join(DAYS[day] for day in window["days"])
    return f"{days} {window['from']}-{window['to']}"


def _local(at: str, zone: str) -> str:
    """Return a time of the API in the schedule's zone, or in UTC if this machine does not know the zone."""
    try:
        there = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"{datetime.fromisoformat(at).astimezone(there):%Y-%m-%d %H:%M %Z}"

"""`proving schedule`: a campaign that repeats."""

from __future__ import annotations

from typing import Annotated

import typer

from proving import names, tables
from proving.session import Json, of


def schedule(
    ctx: typer.Context,
    campaign: str,
    when: Annotated[str, typer.Option(help='Times, such as "daily 02:30", "weekly Mon 02:30" or "cron 30 2 * * 1-5".')],
    name: Annotated[str, typer.Option(help="Name. Its campaigns have it, with the date.")],
    time_zone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone. Default: the host's.")] = "",
    late: Annotated[int, typer.Option(min=1, max=1440, help="Minutes by which a campaign may start late.")] = 30,
    json: Json = False,
) -> None:
    """Repeat a campaign: a clone with a new seed starts at each time."""
    session = of(ctx)
    body = {"campaign": names.campaign(session.client, campaign), "name": name, "when": when, "late_by_min": late}
    found = session.client.post("schedules/", body | ({"time_zone": time_zone} if time_zone else {}))
    words = f"{found['name']}: {found['state']}, {found['when']} {found['time_zone']}"
    session.tell(found, lambda: tables.lines(words, *(f"next {at}" for at in found["next"])))

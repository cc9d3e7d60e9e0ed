"""`proving hosts`, `proving ls` and `proving show`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from common.wording import host_state
from proving import ids, tables
from proving.commands.watch import shown
from proving.errors import Code
from proving.session import CampaignArgument, Json, of


class What(StrEnum):
    CAMPAIGNS = "campaigns"
    RECIPES = "recipes"
    PROFILES = "profiles"
    DECISIONS = "decisions"
    SCHEDULES = "schedules"
    SEARCHES = "searches"


Columns = dict[str, str]  # title -> field
COLUMNS: dict[What, Columns] = {
    What.CAMPAIGNS: {"id": "id", "name": "name", "host": "host_name", "state": "state", "created": "created_at"},
    What.RECIPES: {"name": "name", "version": "version", "needs": "needs", "question": "question"},
    What.PROFILES: {"id": "id", "name": "name", "description": "description"},
    What.DECISIONS: {"id": "id", "title": "title", "status": "status", "by": "author", "created": "created_at"},
    What.SCHEDULES: {"name": "name", "state": "state", "when": "when", "zone": "time_zone", "host": "host_name"},
    What.SEARCHES: {"id": "id", "name": "name", "state": "state", "host": "host_name", "created": "created_at"},
}
SHORT = {"created_at": 16, "ended_at": 16}
Limit = Annotated[int, typer.Option(min=1, max=10000, help="Number of rows, newest first.")]


def hosts(ctx: typer.Context, json: Json = False) -> None:
    """List hosts: state, level, and why a host accepts no runs."""
    session = of(ctx)
    listed = list(session.client.rows("hosts/", ordering="name"))
    rows = [
        (row["name"], host_state(row["state"]), row["level"], row["address"], row["state_reason"]) for row in listed
    ]
    session.tell(listed, lambda: tables.table(("name", "state", "level", "address", "why"), rows))


def ls(
    ctx: typer.Context,
    what: Annotated[What, typer.Argument(help="Kind of objects to list.")] = What.CAMPAIGNS,
    state: Annotated[str, typer.Option(help="Only campaigns in this state.")] = "",
    host: Annotated[str, typer.Option(help="Only campaigns of this host.")] = "",
    archived: Annotated[bool, typer.Option("--archived", help="List only archived campaigns.")] = False,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List campaigns, newest first, or recipes, profiles, decisions, schedules or searches."""
    session = of(ctx)
    params: dict[str, Any] = {"state": state} if state else {}
    params |= {"host": ids.host(session.client, host)} if host else {}
    params |= {"archived": archived} if what is What.CAMPAIGNS else {}
    whole = what is What.RECIPES
    listed = session.client.get("recipes/") if whole else list(session.client.rows(f"{what}/", limit, **params))
    columns = COLUMNS[what]
    rows = [[_cell(row, field) for field in columns.values()] for row in listed]
    session.tell(listed, lambda: tables.table(list(columns), rows))


def _cell(row: dict[str, Any], field: str) -> str:
    text = str(row.get(field, "") or "")
    if field == "id":
        return text[:8]
    return text[: SHORT[field]].replace("T", " ") if field in SHORT else text


def show(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """Show the progress of a campaign, its results and its findings."""
    session = of(ctx)
    key = ids.campaign(session.client, campaign)
    overview = {"campaign": session.client.get(f"campaigns/{key}/")}
    if overview["campaign"]["progress"]["total"]:
        overview["results"] = session.client.get(f"campaigns/{key}/results/")
    session.tell(overview, lambda: shown(session, overview) if "results" in overview else _draft(overview["campaign"]))


def check(
    ctx: typer.Context,
    campaign: CampaignArgument,
    ask: Annotated[bool, typer.Option("--ask", help="Ask the hosts now. Default: use their known facts.")] = False,
    json: Json = False,
) -> None:
    """Check whether a draft can start: what its runs need, and what each host has."""
    session = of(ctx)
    address = f"campaigns/{ids.campaign(session.client, campaign)}/checks/"
    checks = session.client.post(address) if ask else session.client.get(address)
    columns = ("host", "check", "status", "actual", "wanted", "field", "hint")
    head = ["needs" if name == "wanted" else name for name in columns]
    session.tell(checks, lambda: tables.table(head, [[row[name] for name in columns] for row in checks]))
    if not all(row["ok"] for row in checks):
        raise typer.Exit(Code.FAILED)


def _draft(campaign: dict[str, Any]) -> Any:
    factors = [
        f"{factor['name']}: {', '.join(level['label'] for level in factor['levels'])}" for factor in campaign["factors"]
    ]
    summary = (
        f"{campaign['name']}: {campaign['state']} on {campaign['host_name']}, {campaign['repetitions']} repetitions"
    )
    return tables.lines(summary, campaign["question"], *factors, f"start it with: proving start {campaign['id'][:8]}")

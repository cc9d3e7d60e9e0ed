"""`proving search`: better values of settings."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from proving import ids, tables
from proving.session import CampaignArgument, Json, Session, of

TRIALS = 1000
HELP = (
    "Create, show, pause, resume, extend or stop a search for better values of settings. "
    "List them with: proving ls searches"
)
Name = Annotated[str, typer.Argument(metavar="SEARCH", help="Name of the search, its id, or the beginning of its id.")]


def create(
    ctx: typer.Context,
    campaign: CampaignArgument,
    vary: Annotated[
        list[str],
        typer.Option(help='A setting and its range, such as "work_mem 1MB to 64MB log" or "jit on, off". Repeatable.'),
    ],
    budget: Annotated[int, typer.Option(min=1, max=10000, help="Runs in all, the confirmation included.")],
    name: Annotated[str, typer.Option(help="Name of the search. Its campaigns have this name and a number.")],
    candidates: Annotated[int, typer.Option(min=1, max=20, help="Candidates of a round, beside the default.")] = 4,
    blocks: Annotated[int, typer.Option(min=1, max=20, help="Blocks of a round.")] = 1,
    finalists: Annotated[int, typer.Option(min=1, max=10, help="Candidates to confirm, at most.")] = 2,
    confirmation_blocks: Annotated[int, typer.Option(min=3, max=100, help="Blocks of the confirmation.")] = 5,
    allow_risk: Annotated[
        list[str] | None,
        typer.Option(help="A setting of --vary that risks data, such as fsync. Admins only. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Search for better values than the baseline of a campaign, then confirm the best."""
    session = of(ctx)
    body = {
        "campaign": ids.campaign(session.client, campaign),
        "name": name,
        "space": vary,
        "budget_runs": budget,
        "allowed_risks": allow_risk or [],
        "candidates": candidates,
        "blocks": blocks,
        "finalists": finalists,
        "confirmation_blocks": confirmation_blocks,
    }
    _tell(session, session.client.post("searches/", body))


def show(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Show a search, the verdict of its confirmation, and its trials, best first."""
    session = of(ctx)
    key = ids.search(session.client, search)
    found = session.client.get(f"searches/{key}/")
    trials = list(session.client.rows(f"searches/{key}/trials/", TRIALS))
    best = sorted(trials, key=lambda row: (row["state"] != "measured", -(row["log_ratio"] or -math.inf)))
    head = ("trial", "state", "blocks", "ratio to default", "95 % CI", "values")
    rows = [tuple(map(str, _cells(row))) for row in best]
    past = [tables.table(head, rows)] if rows else []
    session.tell(found | {"trials": trials}, lambda: tables.below(tables.lines(*_lines(found)), *past))


def pause(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Pause a search. The campaign of its round continues to its end."""
    _act(of(ctx), search, "pause")


def resume(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Resume a paused search. You own it from then on."""
    _act(of(ctx), search, "resume")


def extend(
    ctx: typer.Context,
    search: Name,
    runs: Annotated[int, typer.Option(min=1, max=10000, help="Runs to add to the budget.")],
    json: Json = False,
) -> None:
    """Add runs to the budget. A finished search goes on, and ends with another confirmation."""
    _act(of(ctx), search, "extend", {"runs": runs})


def stop(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Stop a search without a confirmation. The campaign of its round is cancelled. This cannot be undone."""
    _act(of(ctx), search, "stop")


def _act(session: Session, search: str, verb: str, body: dict[str, Any] | None = None) -> None:
    _tell(session, session.client.post(f"searches/{ids.search(session.client, search)}/{verb}/", body))


def _tell(session: Session, found: dict[str, Any]) -> None:
    session.tell(found, lambda: tables.lines(*_lines(found)))


def _lines(found: dict[str, Any]) -> list[str]:
    """The state, what is searched, and what the confirmation found."""
    confirmed = found["confirmation"] or {"campaign": "", "findings": []}
    return [
        f"{found['name']}: {found['state']}, {found['spent_runs']} of {found['budget_runs']} runs",
        found["state_reason"],
        f"searches better values than campaign {found['campaign'][:8]} on {found['host_name']}; owner {found['owner']}",
        *found["space"],
        f"confirmation: campaign {confirmed['campaign'][:8]}" if confirmed["campaign"] else "",
        *confirmed["findings"],
    ]


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    values = ", ".join(f"{name}={value}" for name, value in row["values"].items())
    ratio = "" if row["log_ratio"] is None else f"{math.exp(row['log_ratio']):.3f}"
    interval = "" if row["low"] is None else f"{math.exp(row['low']):.3f} to {math.exp(row['high']):.3f}"
    return row["number"], row["state"].replace("_", " "), row["blocks"], ratio, interval, values

"""`proving decide`: a decision on a campaign."""

from __future__ import annotations

from typing import Annotated

import typer

from proving import ids, tables
from proving.session import CampaignArgument, Json, of


def decide(
    ctx: typer.Context,
    campaign: CampaignArgument,
    title: Annotated[str, typer.Option(help="The decision in one line.")],
    decision: Annotated[str, typer.Option(help="What changes from now on.")],
    level: Annotated[str, typer.Option(help="The chosen level, such as cpus=2: its settings are decided.")] = "",
    question: Annotated[str, typer.Option(help="Default: the campaign's question.")] = "",
    options: Annotated[str, typer.Option(help="The alternatives, and why they were not chosen.")] = "",
    reasons: Annotated[str, typer.Option(help="Reasons for the decision.")] = "",
    host: Annotated[
        list[str] | None, typer.Option(help="Host in scope; repeatable. Default: the campaign's hosts.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label of hosts in scope; repeatable.")] = None,
    postgresql_from: Annotated[int | None, typer.Option(metavar="MAJOR", help="Lowest PostgreSQL in scope.")] = None,
    postgresql_to: Annotated[int | None, typer.Option(metavar="MAJOR", help="Highest PostgreSQL in scope.")] = None,
    kernel_from: Annotated[str, typer.Option(metavar="VERSION", help="Lowest Linux in scope, such as 6.1.")] = "",
    kernel_to: Annotated[str, typer.Option(metavar="VERSION", help="Highest Linux in scope.")] = "",
    supersedes: Annotated[int | None, typer.Option(help="Id of the decision to replace.")] = None,
    review_on: Annotated[str | None, typer.Option(metavar="DATE", help="Date of the next review.")] = None,
    team: Annotated[str, typer.Option(help="Name of the team that owns the decision. Default: no team.")] = "",
    accept: Annotated[bool, typer.Option("--accept", help="Accept the decision immediately.")] = False,
    json: Json = False,
) -> None:
    """Propose a decision. The current results of the campaign are frozen as its evidence."""
    client = of(ctx).client
    given = {
        "campaign": ids.campaign(client, campaign),
        "title": title,
        "decision": decision,
        "level": level,
        "question": question,
        "options": options,
        "reasons": reasons,
        "labels": label,
        "review_on": review_on,
        "hosts": [ids.host(client, name) for name in host or []],
        "supersedes": supersedes,
        "postgresql_from": postgresql_from,
        "postgresql_to": postgresql_to,
        "kernel_from": kernel_from,
        "kernel_to": kernel_to,
        "team": ids.team(client, team) if team else None,
    }
    created = client.post("decisions/", {name: value for name, value in given.items() if value not in (None, "", [])})
    if accept:
        created = client.post(f"decisions/{created['id']}/accept/")
    url = f"{client.url}/decisions/{created['id']}/"
    of(ctx).tell(created, lambda: tables.lines(f"decision {created['id']}: {created['status']}", url))

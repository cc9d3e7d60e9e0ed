"""`proving decide`: a decision on a campaign."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from proving import ids, tables
from proving.session import CampaignArgument, Json, of


def decide(
    ctx: typer.Context,
    campaign: CampaignArgument,
    title: Annotated[str, typer.Option(help="The decision in one line.")],
    decision: Annotated[str, typer.Option(help="What changes from now on.")],
    reasons: Annotated[str, typer.Option(help="Reasons for the decision.")] = "",
    host: Annotated[
        list[str] | None, typer.Option(help="Host in scope; repeatable. Default: the campaign's host.")
    ] = None,
    supersedes: Annotated[int | None, typer.Option(help="Id of the decision to replace.")] = None,
    review_on: Annotated[str | None, typer.Option(metavar="DATE", help="Date of the next review.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the decision immediately.")] = False,
    json: Json = False,
) -> None:
    """Propose a decision. The current results of the campaign are frozen as its evidence."""
    session = of(ctx)
    body = {"campaign": ids.campaign(session.client, campaign), "title": title, "decision": decision}
    options: dict[str, Any] = {"reasons": reasons, "supersedes": supersedes, "review_on": review_on}
    options["hosts"] = [ids.host(session.client, each) for each in host or []]
    created = session.client.post("decisions/", body | {name: each for name, each in options.items() if each})
    if accept:
        created = session.client.post(f"decisions/{created['id']}/accept/")
    url = f"{session.client.url}/decisions/{created['id']}/"
    session.tell(created, lambda: tables.lines(f"decision {created['id']}: {created['status']}", url))

"""`proving run`: create a campaign from a recipe."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from common.wording import counted
from proving import factors, ids, tables
from proving.commands.watch import finish
from proving.errors import UsageError
from proving.session import CampaignArgument, Json, Session, of

Host = Annotated[list[str], typer.Option("--host", help="Name of the host. Repeat it for further hosts.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FACTOR=LEVELS",
        help="Levels of a factor, separated by commas. FACTOR is a factor of the recipe, with its labels, or a path "
        "with values, such as settings.postgresql.work_mem=4MB,64MB. A path with one value sets it in every run.",
    ),
]
Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Name of the recipe. List recipes with: proving ls recipes")
]
Delta = Annotated[float | None, typer.Option("--delta", min=0.01, max=99, help="Minimum effect, in percent.")]


def run(
    ctx: typer.Context,
    recipe: Recipe,
    host: Host,
    set_: Set = None,
    repetitions: Annotated[int | None, typer.Option(help="Runs of each combination.")] = None,
    delta: Delta = None,
    metric: Annotated[str | None, typer.Option(help="Figure to compare.")] = None,
    name: Annotated[str | None, typer.Option(help="Name. Default: the recipe's title and the host.")] = None,
    question: Annotated[str | None, typer.Option(help="Question of the campaign. Default: the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the order of runs.")] = None,
    budget_h: Annotated[float | None, typer.Option(help="Start no run that would end after this many hours.")] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Create a draft without starting it.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the campaign to its end and print the results.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a campaign from a recipe and start it."""
    if draft and watch:
        raise UsageError("a draft has nothing to watch", field="--draft", accepted="either --draft or --watch")
    session = of(ctx)
    options: dict[str, Any] = {
        "repetitions": repetitions,
        "metric": metric,
        "name": name,
        "question": question,
        "seed": seed,
    }
    options |= {"budget_h": budget_h, "delta": None if delta is None else delta / 100}
    made = create(session, recipe, host, set_ or [], options)
    if not draft:
        made = session.client.post(f"campaigns/{made['id']}/start/")
    url = f"{session.client.url}/campaigns/{made['id']}/"
    if not watch:
        session.tell(made, lambda: tables.lines(f"{made['id']}  {made['state']}", made.get("unchecked", ""), url))
        return
    session.say(f"campaign {made['id']}: {counted(made['progress']['total'], 'run')}, {url}")
    finish(session, made["id"])


def create(
    session: Session, recipe: str, hosts: list[str], assignments: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    """Create a draft. Its factors are those of the recipe on that host, changed by --set."""
    first, *further = [ids.host(session.client, host) for host in hosts]
    body = {"recipe": recipe, "host": first} | {name: each for name, each in options.items() if each is not None}
    if further:
        body |= {"further_hosts": further}
    if assignments:
        on_host = session.client.get(f"recipes/{recipe}/", host=first)
        body |= {"factors": factors.applied(on_host["factors"], assignments)}
    made: dict[str, Any] = session.client.post("campaigns/", body)
    return made


def start(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """Start a draft."""
    _act(of(ctx), campaign, "start")


def cancel(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """End a campaign early. Its hosts are restored."""
    _act(of(ctx), campaign, "cancel")


def archive(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """Hide a campaign that has ended from the lists. Its results and its address remain."""
    _act(of(ctx), campaign, "archive")


def unarchive(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """Show an archived campaign in the lists again."""
    _act(of(ctx), campaign, "unarchive")


def _act(session: Session, campaign: str, verb: str) -> None:
    changed = session.client.post(f"campaigns/{ids.campaign(session.client, campaign)}/{verb}/")
    session.tell(changed, lambda: tables.lines(f"{changed['id']}  {changed['name']}: {_state(changed)}"))


def _state(campaign: dict[str, Any]) -> str:
    return f"{campaign['state']}, archived" if campaign["archived_at"] else str(campaign["state"])

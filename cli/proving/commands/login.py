"""`proving login` and `proving whoami`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from proving import ci_token, config, tables
from proving.client import Client
from proving.session import Json, of

Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the server, such as https://proving.example.org.")]
Token = Annotated[
    str,
    typer.Option(
        help="Default: read from a prompt or stdin. On a command line, other users can see it.", show_default=False
    ),
]


CiJob = Annotated[
    int | None,
    typer.Option(
        "--ci",
        metavar="NUMBER",
        min=1,
        help="Sign in as this trusted CI job, with the ID token of the CI platform instead of a token.",
        show_default=False,
    ),
]


def login(ctx: typer.Context, url: Url, token: Token = "", ci: CiJob = None, json: Json = False) -> None:
    """Check a token with the server, and store address and token. In a CI job, exchange its ID token for one."""
    address = config.valid_url(url)
    if ci:
        token = _exchange(address, ci)
    credentials = config.Login(address, token or _read_token(url))
    with Client(credentials) as client:
        me = client.get("me/")
    path = config.save(credentials)
    of(ctx).tell(
        me | {"url": credentials.url, "file": str(path)}, lambda: tables.lines(_account_line(me), f"saved in {path}")
    )


def whoami(ctx: typer.Context, json: Json = False) -> None:
    """Show the owner, the role, the limits and the expiry of the token."""
    session = of(ctx)
    me = session.client.get("me/")
    session.tell(me | {"url": session.client.url}, lambda: tables.lines(_account_line(me), session.client.url))


def _exchange(address: str, job: int) -> str:
    """The API token for the ID token of this CI job."""
    with Client(config.Login(address, "")) as client:
        answer = client.post("ci-jobs/exchange/", {"job": job, "id_token": ci_token.read(address)})
    return str(answer["secret"])


def _read_token(url: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Token for {url}", hide_input=True))
    return sys.stdin.readline().strip()


def _account_line(me: dict[str, Any]) -> str:
    token = me["token"]
    if not token:
        return f"{me['username']}, {me['role']}"
    limits = [f"scopes {' '.join(token['scopes'])}"] if token["scopes"] else []
    limits += [f"only in team {_team_name(me)}"] if token["team"] is not None else []
    limits += [f"only from {', '.join(token['networks'])}"] if token["networks"] else []
    return ", ".join([me["username"], me["role"], *limits, f"until {token['expires_at'][:10]}"])


def _team_name(me: dict[str, Any]) -> str:
    """The name of the team to which the token is limited; its id if the user is not a member."""
    team: int = me["token"]["team"]
    return next((str(each["name"]) for each in me["teams"] if each["id"] == team), str(team))

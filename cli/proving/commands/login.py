"""`proving login` and `proving whoami`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from proving import config, tables
from proving.client import Client
from proving.session import Json, of

Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the server, such as https://proving.example.org.")]
Token = Annotated[
    str,
    typer.Option(
        help="Default: read from a prompt or stdin. On a command line, other users can see it.", show_default=False
    ),
]


def login(ctx: typer.Context, url: Url, token: Token = "", json: Json = False) -> None:
    """Check a token with the server, and store address and token."""
    wanted = config.Login(config.checked(url), token or _asked(url))
    with Client(wanted) as client:
        me = client.get("me/")
    kept = config.save(wanted)
    of(ctx).tell(me | {"url": wanted.url, "file": str(kept)}, lambda: tables.lines(_words(me), f"saved in {kept}"))


def whoami(ctx: typer.Context, json: Json = False) -> None:
    """Show the owner, the role and the expiry of the token."""
    session = of(ctx)
    me = session.client.get("me/")
    session.tell(me | {"url": session.client.url}, lambda: tables.lines(_words(me), session.client.url))


def _asked(url: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Token for {url}", hide_input=True))
    return sys.stdin.readline().strip()


def _words(me: dict[str, Any]) -> str:
    until = me["token"]["expires_at"][:10] if me["token"] else ""
    return f"{me['username']}, {me['role']}" + (f", until {until}" if until else "")

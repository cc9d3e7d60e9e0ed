"""`proving token`: the user's API tokens."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from proving import config, ids, tables
from proving.errors import UnreachableError
from proving.session import Json, Session, of

HELP = "Create, list, rotate and revoke your API tokens. The page Account does the same."
Name = Annotated[str, typer.Argument(metavar="TOKEN", help="Name of the token, or its id.")]


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the token, such as: nightly CI.")],
    role: Annotated[str, typer.Option(help="viewer, operator, tuner or admin.")] = "viewer",
    days: Annotated[int, typer.Option(min=1, max=366, help="Days until it expires.")] = 90,
    scope: Annotated[
        list[str] | None, typer.Option(help="read, campaigns or hosts; repeatable. Default: all actions.")
    ] = None,
    team: Annotated[str, typer.Option(metavar="TEAM", help="Name of the only team in which its role counts.")] = "",
    network: Annotated[
        list[str] | None,
        typer.Option(metavar="CIDR", help="Network from which it works; repeatable. Default: from everywhere."),
    ] = None,
    json: Json = False,
) -> None:
    """Create a token and print its secret, once. Only the secret is written to stdout."""
    session = of(ctx)
    body = {"name": name, "role": role, "days": days, "scopes": scope or [], "networks": network or []}
    if team:
        body["team"] = ids.team(session.client, team)
    _tell_secret(session, session.client.post("tokens/", body))


def ls(ctx: typer.Context, json: Json = False) -> None:
    """List your tokens: what they permit, when they expire, and when and from where they were used last."""
    session = of(ctx)
    rows = list(session.client.rows("tokens/"))
    head = ("id", "name", "permits", "expires", "last used", "from")
    lines = [
        (row["id"], row["name"], _permits(row), row["expires_at"][:10], _minute(row), row["last_used_from"] or "")
        for row in rows
    ]
    session.tell(rows, lambda: tables.table(head, lines))


def rotate(
    ctx: typer.Context,
    token: Annotated[
        str, typer.Argument(metavar="[TOKEN]", help="Name or id. Default: the token of this login, which is replaced.")
    ] = "",
    overlap: Annotated[int, typer.Option(min=0, max=168, help="Hours for which the old secret still works.")] = 24,
    days: Annotated[int, typer.Option(min=0, max=366, help="Days until it expires; 0: as before.")] = 0,
    json: Json = False,
) -> None:
    """Replace the secret of a token and print the new one, once. A token can rotate only itself."""
    session = of(ctx)
    me = session.client.get("me/")["token"]
    key = ids.token(session.client, token) if token else me["id"]
    rotated = session.client.post(f"tokens/{key}/rotate/", {"overlap_hours": overlap, "days": days or None})
    if key == me["id"] and (path := config.replace_token(config.load().token, _secret(rotated))):
        session.say(f"the new secret is stored in {path}")
    _tell_secret(session, rotated)


def revoke(ctx: typer.Context, token: Name, json: Json = False) -> None:
    """Revoke a token. Scripts that use it stop working."""
    session = of(ctx)
    key = ids.token(session.client, token)
    session.client.delete(f"tokens/{key}/")
    session.tell({"id": key}, lambda: tables.lines(f"token {token} is revoked"))


def _tell_secret(session: Session, token: dict[str, Any]) -> None:
    """Only the secret is written to stdout."""
    secret = _secret(token)
    session.say(f"{token['name']}: {_permits(token)}, until {token['expires_at'][:10]}; its secret, shown only once:")
    session.tell(token, lambda: tables.lines(secret))


def _secret(token: dict[str, Any]) -> str:
    """The secret of a new or rotated token. A response that was lost and repeated does not contain it."""
    if not token.get("secret"):
        message = "the response with the secret was lost, and the server does not repeat it"
        raise UnreachableError(message, accepted="rotate the token on the page Account")
    return str(token["secret"])


def _permits(token: dict[str, Any]) -> str:
    """The limits in one line: "operator, campaigns, only from 10.2.0.0/16"."""
    scopes = ", ".join(token["scopes"]) or "all actions"
    team = f", only in team {token['team']}" if token["team"] is not None else ""
    networks = f", only from {', '.join(token['networks'])}" if token["networks"] else ""
    return f"{token['role']}, {scopes}{team}{networks}"


def _minute(token: dict[str, Any]) -> str:
    return (token["last_used_at"] or "never").replace("T", " ")[:16]

"""Resolve names and prefixes of IDs to the IDs of the API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from proving.client import Client
from proving.errors import UsageError

NEWEST = 1000  # rows in which a name or a prefix of an ID is searched


def campaign(client: Client, text: str) -> str:
    """Return the ID of a campaign from its ID, a prefix of it, a name, or `last`, the newest that is not archived.

    UsageError if none or several match."""
    try:
        return str(UUID(text))
    except ValueError:
        matches = [row for row in client.rows("campaigns/", NEWEST) if _is(row, text)]
    if text == "last":
        matches = list(client.rows("campaigns/", 1, archived=False))
    if len(matches) != 1:
        message = f"{len(matches)} campaigns match" if matches else "no campaign matches"
        shown = "; ".join(f"{row['id'][:8]} {row['name']}" for row in matches[:5])
        accepted = shown or "an id, the beginning of an id, a whole name, or last; see: proving ls"
        raise UsageError(message, field="CAMPAIGN", value=text, accepted=accepted)
    return str(matches[0]["id"])


def schedule(client: Client, text: str) -> str:
    """Return the ID of a schedule from its ID, a prefix of it, or its name. UsageError if none or several match."""
    return _of_name(client, text, "schedule", "schedules")


def search(client: Client, text: str) -> str:
    """Return the ID of a search from its ID, a prefix of it, or its name. UsageError if none or several match."""
    return _of_name(client, text, "search", "searches")


def _of_name(client: Client, text: str, noun: str, plural: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        known = list(client.rows(f"{plural}/", NEWEST))
    matches = [row for row in known if row["name"] == text] or [row for row in known if _is(row, text)]
    if len(matches) != 1:
        message = f"{len(matches)} {plural} match" if matches else f"no {noun} matches"
        accepted = "; ".join(f"{row['id'][:8]} {row['name']}" for row in (matches or known)[:5])
        accepted = accepted or f"no {plural} yet: create one with proving {noun} create"
        raise UsageError(message, field=noun.upper(), value=text, accepted=accepted)
    return str(matches[0]["id"])


def _is(row: dict[str, Any], text: str) -> bool:
    return bool(text) and (row["name"] == text or row["id"].startswith(text.lower()))


def host(client: Client, name: str) -> int:
    known = list(client.rows("hosts/", ordering="name"))
    host_id = next((row["id"] for row in known if row["name"] == name), None)
    if host_id is None:
        accepted = ", ".join(row["name"] for row in known) or "no hosts yet: an admin adds hosts in the browser"
        raise UsageError("no host of this name", field="--host", value=name, accepted=accepted)
    return int(host_id)


def team(client: Client, name: str) -> int:
    """The id of the team with this name."""
    known = list(client.rows("teams/", ordering="name"))
    team_id = next((row["id"] for row in known if row["name"] == name), None)
    if team_id is None:
        accepted = ", ".join(row["name"] for row in known) or "no teams yet: an instance admin creates teams"
        raise UsageError("no team of this name", field="--team", value=name, accepted=accepted)
    return int(team_id)


def token(client: Client, text: str) -> int:
    """The id of a token of the user from its id or its name. UsageError if none or several match."""
    known = list(client.rows("tokens/"))
    matches = [row for row in known if row["name"] == text] or [row for row in known if str(row["id"]) == text]
    if len(matches) != 1:
        message = f"{len(matches)} tokens match" if matches else "no token matches"
        accepted = "; ".join(f"{row['id']} {row['name']}" for row in (matches or known)[:5])
        raise UsageError(message, field="TOKEN", value=text, accepted=accepted)
    return int(matches[0]["id"])


def side(client: Client, text: str) -> str:
    """Return a side as the server names it: run:, host:, profile: unchanged, else CAMPAIGN or CAMPAIGN:LEVEL."""
    kind, _, rest = text.partition(":")
    if kind in ("run", "host", "profile") and rest:
        return text
    if kind in ("campaign", "level"):
        text = rest
    name, _, level = text.partition(":")
    campaign_id = campaign(client, name)
    return f"level:{campaign_id}:{level}" if level else f"campaign:{campaign_id}"

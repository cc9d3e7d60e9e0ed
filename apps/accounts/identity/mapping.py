"""Which role, and which roles in teams, the groups of a provider give. Pure: settings.py parses with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

# The values of models.Role, from least to most; settings.py cannot import models.
ROLES = ("viewer", "operator", "tuner", "admin")


@dataclass(frozen=True)
class GroupRole:
    """Members of `group` have `role`: in the instance, or in `team` if it names one."""

    group: str
    role: str
    team: str = ""


@dataclass(frozen=True)
class Grant:
    """Roles granted by a user's groups: `role` in the instance, and team name -> role. `role` "" is no access."""

    role: str = ""
    teams: Mapping[str, str] = field(default_factory=dict)


def roles(name: str, values: Sequence[str]) -> frozenset[str]:
    """The roles in a list. ImproperlyConfigured names the variable and the value that is not a role."""
    named = [value.strip() for value in values if value.strip()]
    return frozenset(_role(name, each, each) for each in named)


def instance_roles(name: str, text: str) -> list[GroupRole]:
    """`GROUP=ROLE; GROUP=ROLE`. ImproperlyConfigured names the variable and the entry that is wrong."""
    return [GroupRole(group, _role(name, entry, role)) for entry, group, role in _entries(name, text, "GROUP=ROLE")]


def team_roles(name: str, text: str) -> list[GroupRole]:
    """`GROUP=TEAM:ROLE; GROUP=TEAM:ROLE`. ImproperlyConfigured names the variable and the entry that is wrong."""
    roles = []
    for entry, group, team_and_role in _entries(name, text, "GROUP=TEAM:ROLE"):
        team, colon, role = (part.strip() for part in team_and_role.rpartition(":"))
        if not (team and colon):
            raise ImproperlyConfigured(f"{name} contains {entry!r}: use GROUP=TEAM:ROLE")
        roles.append(GroupRole(group, _role(name, entry, role), team))
    return roles


def _entries(name: str, text: str, form: str) -> Iterator[tuple[str, str, str]]:
    """(entry, group, the rest) of each. The last `=` divides, because a group may be an LDAP name."""
    for entry in (part.strip() for part in text.replace("\n", ";").split(";")):
        if not entry:
            continue
        group, _, rest = (part.strip() for part in entry.rpartition("="))
        if not (group and rest) or _is_list(entry):
            raise ImproperlyConfigured(f"{name} contains {entry!r}: use {form}, separated by semicolons")
        yield entry, group, rest


def _is_list(entry: str) -> bool:
    """Whether commas divide it, as in other variables. An LDAP name has commas too, but not a role before each."""
    parts = [part.strip() for part in entry.split(",")]
    return len(parts) > 1 and all(part.endswith(ROLES) and "=" in part for part in parts)


def _role(name: str, entry: str, role: str) -> str:
    if role not in ROLES:
        raise ImproperlyConfigured(f"{name} contains {entry!r}: the role must be one of {', '.join(ROLES)}")
    return role


def groups(claims: Mapping[str, Any], claim: str) -> set[str]:
    """The groups in a claim: a list of texts, or one text. `claim` may be a path, such as realm_access.roles; whatever
    has another shape contains no groups."""
    value: Any = claims.get(claim)
    if value is None:
        value = claims
        for key in claim.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return {value}
    return {each for each in value if isinstance(each, str)} if isinstance(value, list | tuple) else set()


def grant(held: set[str], roles: Sequence[GroupRole], teams: Sequence[GroupRole]) -> Grant:
    """Return the roles that these groups grant. Names are case-sensitive, and the highest role counts. A role in a team
    includes viewer in the instance."""
    in_teams: dict[str, str] = {}
    for rule in teams:
        if rule.group in held:
            in_teams[rule.team] = _highest([rule.role, in_teams.get(rule.team, "")])
    held_roles = [rule.role for rule in roles if rule.group in held]
    return Grant(_highest(held_roles) or (ROLES[0] if in_teams else ""), in_teams)


def _highest(roles: Sequence[str]) -> str:
    known = [role for role in ROLES if role in roles]
    return known[-1] if known else ""


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def issuers(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """The issuers in a list. ImproperlyConfigured names the variable and the value that is no https:// URL."""
    named = tuple(value.strip() for value in values if value.strip())
    for each in named:
        check_issuer(name, each)
    return named


def check_issuer(name: str, issuer: str) -> None:
    """ImproperlyConfigured unless the issuer's keys are read over TLS, or from this machine."""
    url = urlsplit(issuer)
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in LOOPBACK):
        raise ImproperlyConfigured(f"{name} is {issuer!r}: use an https:// URL")


def check_provider(issuer: str, client_id: str, scopes: str, break_glass: str, limits: Mapping[str, int]) -> None:
    """ImproperlyConfigured names the first variable of the provider that is wrong or missing."""
    if not issuer:
        if client_id or break_glass:
            name = "PROVING_OIDC_CLIENT_ID" if client_id else "PROVING_BREAK_GLASS_ADMIN"
            raise ImproperlyConfigured(f"{name} is set without PROVING_OIDC_ISSUER: set the issuer's URL too")
        return
    check_issuer("PROVING_OIDC_ISSUER", issuer)
    if not client_id:
        raise ImproperlyConfigured("PROVING_OIDC_CLIENT_ID is not set: set the client's ID at the provider")
    if "openid" not in scopes.split():
        raise ImproperlyConfigured(f"PROVING_OIDC_SCOPES is {scopes!r}: it must contain openid")
    for name, value in limits.items():
        if value < 1:
            raise ImproperlyConfigured(f"{name} is {value}: it must be at least 1")

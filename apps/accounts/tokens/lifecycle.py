"""Issues, rotates and revokes API tokens. Each change is in the audit log."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import ApiToken, Role, Scope, Team, User
from apps.accounts.second_factor import policy
from apps.accounts.services import audit, beyond_token, require, require_somewhere
from common.errors import PlanError, RoleError

MOST_DAYS = 366
MOST_OVERLAP_H = 168
MOST_NETWORKS = 20


@dataclass(frozen=True)
class Restriction:
    """The limits of a new token in addition to its role. An empty field limits nothing."""

    scopes: Sequence[str] = ()
    team: Team | None = None
    networks: Sequence[str] = field(default_factory=list)


def check_own_role(user: User, role: Role) -> None:
    """Raise PlanError for the form's field `role` if the user does not have that role anywhere."""
    if not user.may_somewhere(role):
        raise PlanError("role", f"{role.value} exceeds your own role {user.role}, and your roles in teams")


@transaction.atomic
def issue_token(
    user: User,
    name: str,
    role: Role,
    *,
    days: int = 90,
    restriction: Restriction | None = None,
    by_token: ApiToken | None = None,
    by_operator: bool = False,
) -> tuple[ApiToken, str]:
    """A new token of `user`, with at most the highest role of the user, and its secret, which is shown only once.

    `by_token` is the token of the request, if it has one: the new token ends no later and permits no more, because
    otherwise a leaked token would never expire. `by_operator`: the operator of the server issues it at a shell, so no
    second factor is needed.
    """
    require_somewhere(user, role, "issue token")
    if not by_operator:
        policy.check_may_issue_token(user)
    restriction = restriction or Restriction()
    if not name.strip():
        raise PlanError("name", "a token needs a name", hint="state its purpose, for example: nightly CI")
    if by_token:
        restriction = _inherited(restriction, by_token)
    secret = ApiToken.new_secret()
    token = ApiToken.objects.create(
        user=user,
        name=name.strip(),
        role=role,
        digest=ApiToken.hash(secret),
        expires_at=_expiry(days, by_token),
        scopes=read_scopes(restriction.scopes),
        team=restriction.team,
        networks=_networks(restriction.networks),
    )
    audit(user, "token.issue", token, after=_facts(token))
    return token, secret


@transaction.atomic
def rotate_token(
    token: ApiToken, *, by: User, overlap_h: int = 24, days: int | None = None, by_token: ApiToken | None = None
) -> tuple[ApiToken, str]:
    """The token with a new secret, which is shown only once. The old secret works for `overlap_h` more hours; with 0,
    it ends at once.

    `days` sets a new expiry, counted from now; None leaves it unchanged. `by_token` is the token of the request, if it
    has one: it rotates only itself, and only with its newest secret.
    """
    locked = ApiToken.objects.select_for_update().get(pk=token.pk)
    _check_rotation(locked, by, by_token)
    if not 0 <= overlap_h <= MOST_OVERLAP_H:
        raise PlanError("overlap_hours", f"{overlap_h} is not between 0 and {MOST_OVERLAP_H}")
    now = timezone.now()
    if days is not None:
        locked.expires_at = _expiry(days, by_token)
    elif locked.expires_at <= now:
        raise PlanError("days", f"the token expired on {locked.expires_at:%Y-%m-%d}", hint="state its new validity")
    secret = ApiToken.new_secret()
    locked.old_digest, locked.digest = locked.digest, ApiToken.hash(secret)
    locked.rotated_at, locked.old_works_until = now, now + timedelta(hours=overlap_h)
    locked.save()
    about = {"old_works_until": locked.old_works_until.isoformat(), "by_token": by_token is not None}
    audit(by, "token.rotate", locked, after=about | {"id": locked.pk, "expires_at": locked.expires_at.isoformat()})
    return locked, secret


def _check_rotation(token: ApiToken, by: User, by_token: ApiToken | None) -> None:
    if token.user_id != by.pk:
        raise RoleError("rotate token", "only the owner of a token can rotate it", hint="revoke it instead")
    if by_token is None:
        return
    if by_token.pk != token.pk:
        raise beyond_token(by, "rotate token", f"a token rotates only itself, not {token.name!r}")
    if by_token.sent_digest != token.digest:
        message = "this is the old value of a rotated token"
        raise RoleError("rotate token", message, hint="send the new value, or rotate it on the page Account")


@transaction.atomic
def revoke_token(token: ApiToken, *, by: User) -> None:
    """Delete a token. Its owner and admins may do that. A token cannot revoke a token that permits more than itself."""
    if token.user_id != by.pk:
        require(by, Role.ADMIN, "revoke token")
    if not by.limits.includes(token.limits):
        raise beyond_token(by, "revoke token", f"{token.name!r} permits more: {token.limits}")
    audit(by, "token.revoke", token)
    token.delete()


def _expiry(days: int, by_token: ApiToken | None) -> datetime:
    if not 1 <= days <= MOST_DAYS:
        raise PlanError("days", f"{days} is not between 1 and {MOST_DAYS}")
    expires_at = timezone.now() + timedelta(days=days)
    if by_token and expires_at > by_token.sent_value_works_until:
        message = f"{days} days exceed the validity of the current token: {by_token.sent_value_works_until:%F %T} UTC"
        raise PlanError("days", message, hint="choose fewer days, or log in with your password")
    return expires_at


def read_scopes(names: Sequence[str]) -> list[str]:
    """The scopes in the order of Scope, without duplicates."""
    for name in names:
        if name not in Scope.values:
            raise PlanError("scopes", f"{name!r} is not a scope", hint=f"accepted: {', '.join(Scope.values)}")
    return [value for value in Scope.values if value in names]


def _networks(texts: Sequence[str]) -> list[str]:
    """The networks in CIDR notation: 10.1.2.3 becomes 10.1.2.3/32."""
    if len(texts) > MOST_NETWORKS:
        raise PlanError("networks", f"{len(texts)} networks", hint=f"accepted: at most {MOST_NETWORKS}")
    return [str(_network(each)) for each in dict.fromkeys(text.strip() for text in texts)]


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        hint = "accepted: addresses, and networks such as 10.2.0.0/16 or 2001:db8::/32"
        with suppress(ValueError):  # an address with host bits, such as 10.2.0.1/16
            hint = f"did you mean {ipaddress.ip_network(text, strict=False)}?"
        raise PlanError("networks", f"{text[:60]!r} is not a network", hint=hint) from error


def _inherited(restriction: Restriction, by_token: ApiToken) -> Restriction:
    """The restriction, completed with the limits of the request's token. PlanError if it permits more than that."""
    if by_token.team_id is not None and restriction.team is not None and restriction.team.pk != by_token.team_id:
        raise PlanError(
            "team", f"the current token is limited to the team {by_token.team}", hint="leave the field empty"
        )
    allowed = [ipaddress.ip_network(network) for network in by_token.networks]
    for text in _networks(restriction.networks) if allowed else ():
        if not any(_is_part(_network(text), each) for each in allowed):
            hint = "choose networks inside of these, or leave the field empty"
            raise PlanError("networks", f"{text} is outside of {', '.join(by_token.networks)}", hint=hint)
    team = by_token.team or restriction.team
    return Restriction(restriction.scopes, team, list(restriction.networks) or by_token.networks)


def _is_part(inner: ipaddress.IPv4Network | ipaddress.IPv6Network, outer: object) -> bool:
    same = isinstance(outer, type(inner))
    return same and inner.subnet_of(outer)  # type: ignore[arg-type]  # the same version


def _facts(token: ApiToken) -> dict[str, object]:
    """The limits of a token, for the audit log."""
    facts = {"role": token.role, "expires_at": token.expires_at.isoformat(), "scopes": token.scopes}
    return facts | {"team": str(token.team or ""), "networks": token.networks}

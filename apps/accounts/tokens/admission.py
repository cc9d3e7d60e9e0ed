"""Admits requests with a token, and checks that its scopes permit the action."""

from __future__ import annotations

import ipaddress
import logging

from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone
from redis.exceptions import RedisError
from rest_framework.exceptions import AuthenticationFailed

from apps.accounts.identity import access
from apps.accounts.models import NONE, ApiToken, Scope, User, unjoined_teams
from apps.accounts.services import audit
from apps.infrastructure.addresses import without_mapping
from common.errors import RoleError

AUDITED_EVERY_S = 3600
log = logging.getLogger(__name__)


def admit(secret: str, address: str) -> ApiToken:
    """The token with this secret. Its user has only the roles that the token permits. `address` is the client's.

    AuthenticationFailed if it is unknown, expired or not confirmed; RoleError if it does not work from this address.
    """
    digest = ApiToken.hash(secret)
    rows = ApiToken.objects.select_related("user").annotate(unjoined_teams=unjoined_teams("user"))
    token = rows.filter(Q(digest=digest) | Q(old_digest=digest)).first()
    if token is None or not token.user.is_active:
        raise AuthenticationFailed("unknown token")
    if reason := _invalidity(token, digest) or access.lapsed(token.user):
        raise AuthenticationFailed(reason)
    _check_network(token, address)
    token.sent_digest = digest
    token.user.limit_to(token.limits)
    token.user.unjoined_teams = frozenset(token.unjoined_teams)
    return token


def _invalidity(token: ApiToken, digest: str) -> str:
    """Why this secret of the token no longer works; "" if it does."""
    now, old_works_until = timezone.now(), token.old_works_until
    if token.expires_at <= now:
        return f"this token expired on {token.expires_at:%Y-%m-%d}; issue a new one"
    if digest == token.old_digest and old_works_until and old_works_until <= now:
        return f"this token was rotated, and its old value ended on {old_works_until:%F %H:%M} UTC; use the new value"
    return ""


def _check_network(token: ApiToken, address: str) -> None:
    if not token.networks or _is_in(address, token.networks):
        return
    _audit_refused(token, address)
    message = f"this token works only from {', '.join(token.networks)}; the request came from {address or 'nowhere'}"
    raise RoleError("network", message, hint="send it from there, or use a token that works from your network")


def _is_in(address: str, networks: list[str]) -> bool:
    try:
        client = without_mapping(ipaddress.ip_address(address))
    except ValueError:
        return False
    return any(client in ipaddress.ip_network(network) for network in networks)


def _audit_refused(token: ApiToken, address: str) -> None:
    """Record the refusal, once an hour per token, so that a leaked token cannot fill the audit log."""
    try:
        if not cache.add(f"token-refused:{token.pk}", 1, AUDITED_EVERY_S):
            return
    except RedisError as error:
        log.warning("no audit entry for a refusal of token %s: %s", token.pk, error)
        return
    audit(None, "token.refuse", token, after={"address": address, "networks": token.networks})


def check_scope(user: User, scope: str, action: str) -> None:
    """RoleError unless the token of the request permits actions of this scope. Sessions permit all."""
    if user.limits.permits(scope):
        return
    scopes = ", ".join(user.limits.scopes)
    if scope == NONE:
        message = f"the token has the scope {scopes}; no scope permits this"
        raise RoleError(action, message, hint="use a token for all actions, or log in with your password")
    message = f"the token has the scope {scopes}; this needs {Scope(scope).value}"
    raise RoleError(action, message, hint=f"use a token with the scope {Scope(scope).value}")


def note_use(token: ApiToken, address: str) -> None:
    """Store the time and the client's address of this use of the token."""
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=timezone.now(), last_used_from=_stored(address))


def _stored(address: str) -> str | None:
    try:
        return str(without_mapping(ipaddress.ip_address(address)))
    except ValueError:
        return None

"""Sessions end when the provider takes the access away: each request checks what is promised.

The promises are in docs/operations/identity.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY, login, logout
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from apps.accounts import sessions
from apps.accounts.identity import access, provider
from apps.accounts.models import ProviderAccount, ProviderSession
from apps.accounts.services import audit
from apps.infrastructure import vault
from common.errors import HostError, RoleError, UnreachableError

# In the session's data: {"ends", "confirmed": seconds since the epoch, "renews": whether there is a refresh token}.
MARK = "_provider"
BACKEND = "django.contrib.auth.backends.ModelBackend"
# Time between a failed attempt and the next request to the provider.
RETRY_S = 30
WAIT_S, POLL_S = 10.0, 0.2
log = logging.getLogger(__name__)


def open_session(request: HttpRequest, account: ProviderAccount, confirmed: provider.Confirmed) -> None:
    """Log in the account's user. The session ends after PROVING_OIDC_SESSION_MIN in any case."""
    login(request, account.user, backend=BACKEND)
    sessions.record_login(request)
    length_s = settings.OIDC_SESSION_MIN * 60
    now = time.time()
    request.session[MARK] = {"ends": now + length_s, "confirmed": now, "renews": bool(confirmed.refresh_token)}
    request.session.set_expiry(length_s)
    request.session.save()
    ProviderSession.objects.create(
        session_id=sessions.digest(request.session.session_key or ""),
        account=account,
        refresh_encrypted=vault.encrypt(confirmed.refresh_token) if confirmed.refresh_token else "",
        id_token_encrypted=vault.encrypt(confirmed.id_token) if confirmed.id_token else "",
    )


def forget(request: HttpRequest) -> None:
    """Remove the data of sign-ins at the provider, because this session was started with a password."""
    request.session.pop(MARK, None)
    request.session.set_expiry(None)


def provider_session(request: HttpRequest) -> ProviderSession | None:
    """The row behind a session that the provider started. No query for other sessions."""
    if MARK not in request.session:
        return None
    key = sessions.digest(request.session.session_key or "")
    return ProviderSession.objects.select_related("account__user").filter(pk=key).first()


class Recheck:
    """Asks the provider again after PROVING_OIDC_RECHECK_MIN, by the refresh token; until then it costs no query. A
    session whose access is gone is logged out before anything else reads it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if access.enabled() and SESSION_KEY in request.session:
            _confirm_or_end(request)
        return self.get_response(request)


def _confirm_or_end(request: HttpRequest) -> None:
    mark: dict[str, Any] | None = request.session.get(MARK)
    if mark is None:
        if settings.BREAK_GLASS_ADMIN and request.user.get_username() != settings.BREAK_GLASS_ADMIN:
            _end(request, "passwords are switched off")
        return
    now = time.time()
    if now >= mark["ends"]:
        _end(request, "maximum age of the session")
    elif mark["renews"] and now >= mark["confirmed"] + settings.OIDC_RECHECK_MIN * 60:
        _confirm(request, mark)


def _confirm(request: HttpRequest, mark: dict[str, Any]) -> None:
    row = provider_session(request)
    if row is None:
        return _end(request, "no record of its sign-in")
    if row.confirmed_at.timestamp() > mark["confirmed"] + settings.OIDC_RECHECK_MIN * 60:
        request.session[MARK] = {**mark, "confirmed": row.confirmed_at.timestamp()}
        return None
    now = timezone.now()
    free = ProviderSession.objects.filter(pk=row.pk, tried_at=row.tried_at, confirmed_at=row.confirmed_at)
    tried_lately = row.tried_at > now - timedelta(seconds=RETRY_S)
    if not tried_lately and free.update(tried_at=now):
        return _ask(request, mark, row)
    # Another request of this session checks now, or did a moment ago.
    at = _confirmed_at(row)
    if at:
        request.session[MARK] = {**mark, "confirmed": at.timestamp()}
    elif _overdue(row):
        request.user = AnonymousUser()
    return None


def _ask(request: HttpRequest, mark: dict[str, Any], row: ProviderSession) -> None:
    try:
        confirmed = provider.renew(vault.decrypt(row.refresh_encrypted, what="a refresh token"), row.account.subject)
    except RoleError as error:
        return _end(request, error.message)
    except (HostError, UnreachableError) as error:
        log.warning("a session of %s is not confirmed: %s", row.account.user, error)
        return _end(request, "the provider does not answer") if _overdue(row) else None
    try:
        grant = access.granted(confirmed.claims)
    except RoleError as error:
        access.end(row.account.user, error.message)
        return logout(request)
    _note_confirmed(row, confirmed, grant)
    request.session[MARK] = {**mark, "confirmed": time.time()}
    return None


@transaction.atomic
def _note_confirmed(row: ProviderSession, confirmed: provider.Confirmed, grant: Any) -> None:
    access.confirm(row.account, grant)
    row.confirmed_at = timezone.now()
    if confirmed.refresh_token:
        row.refresh_encrypted = vault.encrypt(confirmed.refresh_token)
    if confirmed.id_token:
        row.id_token_encrypted = vault.encrypt(confirmed.id_token)
    row.save(update_fields=["confirmed_at", "refresh_encrypted", "id_token_encrypted"])


def _overdue(row: ProviderSession) -> bool:
    """Whether the last confirmation is older than two intervals: a provider that is down does not prolong access."""
    return row.confirmed_at < timezone.now() - timedelta(minutes=2 * settings.OIDC_RECHECK_MIN)


def _confirmed_at(row: ProviderSession) -> datetime | None:
    """When another request confirmed this session; waits for its answer only if there is no time left."""
    deadline = time.monotonic() + (WAIT_S if _overdue(row) else 0)
    while True:
        now = ProviderSession.objects.filter(pk=row.pk).values_list("confirmed_at", flat=True).first()
        if now is None or now > row.confirmed_at:
            return now
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)


def _end(request: HttpRequest, reason: str) -> None:
    audit(None, "session.lapse", request.user, after={"reason": reason})
    logout(request)

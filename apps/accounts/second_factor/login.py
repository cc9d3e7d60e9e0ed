"""Starts the session after a right password, after the second step, or after a sign-in with a passkey."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.conf import settings
from django.contrib import auth, messages
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.utils.crypto import constant_time_compare

from apps.accounts import services, sessions
from apps.accounts.identity import access, recheck
from apps.accounts.models import Passkey, User
from apps.accounts.second_factor import notices, policy

# Key of the session's data between the password and the code.
PENDING = "_second_step"
PENDING_S = 300


@dataclass(frozen=True)
class Pending:
    """A login after a right password: its user, and the page to open afterwards."""

    user: User
    next: str


def begin(request: HttpRequest, user: User, next_page: str) -> None:
    """Start the second step for a user whose password was right. Until it is finished, the session has no user."""
    auth.logout(request)
    request.session[PENDING] = {
        "user": user.pk,
        "hash": user.get_session_auth_hash(),
        "until": time.time() + PENDING_S,
        "next": next_page,
    }
    request.session.set_expiry(PENDING_S)


def pending(request: HttpRequest) -> Pending | None:
    """Return the login that waits for its second step; None if there is none, if it took too long, or if the password
    or the state of the user has changed."""
    mark = request.session.get(PENDING)
    if not mark or time.time() > mark["until"]:
        return None
    user = User.objects.filter(pk=mark["user"], is_active=True).first()
    if user is None or not access.password_works(user) or not policy.enrolled(user):
        return None
    same_password = constant_time_compare(user.get_session_auth_hash(), mark["hash"])
    return Pending(user, mark["next"]) if same_password else None


def finish(request: HttpRequest, waiting: Pending) -> str:
    """Log in after the second step: the address of the page to open."""
    request.session.pop(PENDING, None)
    log_in(request, waiting.user)
    request.session[policy.MARK] = True
    return waiting.next or resolve_url(settings.LOGIN_REDIRECT_URL)


def log_in_by_passkey(request: HttpRequest, passkey: Passkey) -> None:
    """Start the session of a user who signed in with a passkey. It needs no second step: who has the passkey was also
    verified by the authenticator."""
    auth.logout(request)
    log_in(request, passkey.user, by=passkey)
    request.session[policy.MARK] = True


def log_in(request: HttpRequest, user: User, *, by: Passkey | None = None) -> None:
    """Start the session of a user whose password was right, or whose passkey `by` was accepted."""
    reset = notices.reset_since(user, user.last_login)
    auth.login(request, user, backend=recheck.BACKEND)
    sessions.record_login(request)
    request.session.set_expiry(None)
    if reset:
        when = f"{reset.at:%Y-%m-%d %H:%M} UTC"
        text = f"Your second factor was reset on {when} by {reset.actor or 'the operator of the server'}."
        messages.warning(request, f"{text} {notices.UNEXPECTED}")
    if access.enabled():
        recheck.forget(request)
    address = request.META.get("REMOTE_ADDR", "")
    if by is not None:
        services.audit(user, "login.passkey", user, after={"name": by.name, "address": address})
    elif access.enabled():
        services.audit(user, "login.password", user, after={"address": address})

"""Add, use and remove passkeys. Each change is in the audit log."""

from __future__ import annotations

import secrets

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from fido2.utils import websafe_encode
from fido2.webauthn import AuthenticationResponse, AuthenticatorData

from apps.accounts.identity import access
from apps.accounts.models import Passkey, User
from apps.accounts.second_factor import ceremony, factors, notices, policy
from apps.accounts.second_factor.ceremony import NotVerifiedError, Purpose
from apps.accounts.services import audit
from common.errors import PlanError

MOST = 20
# Key of the session's data: the user handle of the passkey that the browser creates.
HANDLE = "_passkey_user_handle"
# The same for each cause, so that it says nothing about users and their passkeys.
REFUSED = "this passkey is not accepted"
HINT = "try again, or log in with your password"


def options_to_add(request: HttpRequest, user: User, name: str) -> dict[str, object]:
    """Options for the browser. PlanError if `user` cannot have a passkey of this name."""
    _check_name(user, name)
    known = list(user.passkeys.all())
    handle = known[0].user_handle if known else websafe_encode(secrets.token_bytes(32))
    request.session[HANDLE] = handle
    return ceremony.creation_options(request, user, handle, known)


def add(request: HttpRequest, user: User, name: str, sent: str) -> list[str]:
    """Store the passkey that the browser created: the recovery codes, which are shown only once, if the user has none
    yet. Other sessions end with the first second factor, because they began without it."""
    try:
        data = ceremony.created(request, sent)
    except NotVerifiedError as error:
        audit(user, "passkey.refused", user, after={"reason": str(error)})
        raise PlanError("name", "the passkey was not created", hint="try again") from error
    handle = request.session.pop(HANDLE, "")
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # two requests could exceed the limit together
        _check_name(user, name)
        had_factor = policy.enrolled(user)
        passkey = _store(user, name, handle, data)
        ended = 0 if had_factor else factors.end_sessions(user, but=request.session.session_key)
        codes = factors.first_codes(user)
        audit(user, "passkey.add", user, after={"name": passkey.name, "sessions_ended": ended})
        notices.mail(user, "passkey_added")
    return codes


def _store(user: User, name: str, handle: str, data: AuthenticatorData) -> Passkey:
    credential = data.credential_data
    assert credential is not None  # noqa: S101 - `created` refuses it
    key = websafe_encode(credential.credential_id)
    if Passkey.objects.filter(credential_id=key).exists():
        raise PlanError("name", "this passkey exists already", hint="use it, or create another one")
    return Passkey.objects.create(
        user=user,
        name=name,
        credential_id=key,
        credential=bytes(credential),
        user_handle=handle,
        sign_count=data.counter,
        is_synced=data.is_backup_eligible(),
    )


def use(request: HttpRequest, purpose: Purpose, sent: str, *, user: User | None = None) -> Passkey:
    """The passkey that signed the challenge of this session; its user is verified. With `user`, it must belong to this
    user. PlanError with the same message for every refusal; the cause is in the audit log if the passkey is known."""
    try:
        response = ceremony.parse(sent)
    except NotVerifiedError as error:
        raise PlanError("passkey", REFUSED, hint=HINT) from error
    with transaction.atomic():
        rows = Passkey.objects.select_related("user").select_for_update(of=("self",))
        passkey = rows.filter(credential_id=websafe_encode(response.raw_id)).first()
        reason = _refusal(request, purpose, response, passkey, user)
        if passkey is not None and not reason:
            passkey.sign_count, passkey.last_used_at = _counter(response), timezone.now()
            passkey.save(update_fields=["sign_count", "last_used_at"])
            return passkey
        if passkey is not None:
            address = str(request.META.get("REMOTE_ADDR", ""))
            after = {"reason": f"passkey {passkey.name}: {reason}", "address": address}
            audit(None, "login.refused", passkey.user, after=after)
    raise PlanError("passkey", REFUSED, hint=HINT)


def _refusal(
    request: HttpRequest, purpose: Purpose, response: AuthenticationResponse, passkey: Passkey | None, user: User | None
) -> str:
    """Why a response is not accepted; "" if it is. Blocks a passkey of which there are two copies."""
    try:
        ceremony.verify(request, purpose, response, passkey)
    except NotVerifiedError as error:
        return str(error)
    assert passkey is not None  # noqa: S101 - `verify` refuses it
    if user is not None and passkey.user_id != user.pk:
        return f"it was sent for {user}"
    if not passkey.user.is_active:
        return "the user is deactivated"
    if not access.password_works(passkey.user):
        return "the user signs in with the provider"
    if passkey.blocked_at:
        return "it is blocked"
    counter = _counter(response)
    if (counter or passkey.sign_count) and counter <= passkey.sign_count:
        _block(passkey, counter)
        return "its signature counter did not increase"
    return ""


def _counter(response: AuthenticationResponse) -> int:
    return response.response.authenticator_data.counter


def _block(passkey: Passkey, counter: int) -> None:
    passkey.blocked_at = timezone.now()
    passkey.save(update_fields=["blocked_at"])
    after = {"name": passkey.name, "counter": counter, "expected": f"above {passkey.sign_count}"}
    audit(None, "passkey.block", passkey.user, after=after)
    notices.mail(passkey.user, "passkey_blocked")


@transaction.atomic
def remove(passkey: Passkey, *, session_key: str | None) -> None:
    """Remove a passkey, and end the other sessions. PlanError if it is the last second factor and the user's role needs
    one."""
    user = User.objects.select_for_update().get(pk=passkey.user_id)
    factors.check_may_remove(user, last=policy.app(user) is None and user.passkeys.count() == 1)
    passkey.delete()
    factors.forget_codes_without_factor(user)
    ended = factors.end_sessions(user, but=session_key)
    audit(user, "passkey.remove", user, before={"name": passkey.name}, after={"sessions_ended": ended})
    notices.mail(user, "passkey_removed")


def _check_name(user: User, name: str) -> None:
    if not access.password_works(user):
        raise PlanError("name", "you sign in with your identity provider")
    if user.passkeys.filter(name=name).exists():
        raise PlanError("name", f"you have a passkey {name!r} already", hint="choose another name")
    if user.passkeys.count() >= MOST:
        raise PlanError("name", f"you have {MOST} passkeys", hint="remove one that you no longer use")

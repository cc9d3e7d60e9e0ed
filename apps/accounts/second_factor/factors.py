"""Authenticator apps and recovery codes, and the reset of second factors. Each change is in the audit log."""

from __future__ import annotations

import hmac
import secrets
import time
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import pyotp
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import ApiToken, Passkey, RecoveryCode, Role, SecondFactor, Session, User
from apps.accounts.models.second_factor import MOST_FAILURES
from apps.accounts.second_factor import notices, policy
from apps.accounts.services import audit, require
from apps.accounts.sessions import digest as session_digest
from apps.infrastructure import vault
from common.errors import PlanError

CODES = 10
PERIOD_S = 30
UNFINISHED = timedelta(minutes=30)
LOCKED_FOR = timedelta(minutes=15)  # after MOST_FAILURES wrong codes
DIGITS = 6
# A phone's clock may be wrong by one period, in either direction.
PERIODS = (-1, 0, 1)
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


@transaction.atomic
def begin(user: User) -> str:
    """Start an enrolment, which replaces an unfinished one: the secret for the authenticator app."""
    if policy.app(user):
        raise PlanError("password", "you have an authenticator app already", hint="remove it first")
    SecondFactor.objects.filter(user=user, confirmed_at=None).delete()
    secret = pyotp.random_base32()
    SecondFactor.objects.create(user=user, secret_encrypted=vault.encrypt(secret), created_at=timezone.now())
    return secret


def address(user: User, secret: str) -> str:
    """The otpauth:// address that the QR code contains."""
    issuer = f"Proving Ground {urlsplit(settings.BASE_URL).hostname}"
    return pyotp.TOTP(secret).provisioning_uri(name=user.username, issuer_name=issuer)


def confirm(user: User, code: str, *, session_key: str | None) -> list[str]:
    """Finish the enrolment with a code of the app: the recovery codes, which are shown only once, if the user has none
    yet. Other sessions of the user end, because they may have begun without a second factor. PlanError if the code is
    wrong."""
    with transaction.atomic():
        factor = SecondFactor.objects.select_for_update().filter(user=user, confirmed_at=None).first()
        if factor is None or factor.created_at < timezone.now() - UNFINISHED or factor.failures >= MOST_FAILURES:
            raise PlanError("code", "the enrolment was not started, or took too long", hint="start again")
        period = _matching_period(factor, code)
        if period is not None:
            return _confirmed(factor, period, session_key)
        factor.failures += 1
        factor.save()
    hint = "check the clock of your phone, or start again and scan the new QR code"
    raise PlanError("code", "this code is wrong or expired", hint=hint)


def _confirmed(factor: SecondFactor, period: int, session_key: str | None) -> list[str]:
    factor.confirmed_at, factor.last_period, factor.failures = timezone.now(), period, 0
    factor.save()
    ended = end_sessions(factor.user, but=session_key)
    codes = first_codes(factor.user)
    audit(factor.user, "factor.enrol", factor.user, after={"sessions_ended": ended})
    notices.mail(factor.user, "enrolled")
    return codes


def verify(user: User, typed: str, *, address: str) -> bool:
    """Whether `typed` is a code of the app that was not used yet, or an unused recovery code, which it uses up.

    PlanError while too many wrong codes, from any address, lock the codes of the user. The caller counts failures by
    address.
    """
    with transaction.atomic():
        locked, now = User.objects.select_for_update(no_key=True).get(pk=user.pk), timezone.now()
        if wait_s := _locked_s(locked, now):
            message = "too many wrong codes for this user"
            raise PlanError("code", message, hint=f"try again in {-(-wait_s // 60)} min")
        accepted = _accept(locked, _plain(typed))
        if accepted:
            locked.wrong_codes = 0
        else:
            locked.wrong_codes, locked.wrong_code_at = (locked.wrong_codes + 1 if _is_recent(locked, now) else 1), now
            _audit_wrong_code(user, address)
        locked.save(update_fields=["wrong_codes", "wrong_code_at"])
    return accepted


def _locked_s(user: User, now: datetime) -> int:
    """Seconds until codes are accepted again after too many wrong ones; 0 if they are accepted now."""
    if user.wrong_codes < MOST_FAILURES or user.wrong_code_at is None:
        return 0
    return max(0, int((user.wrong_code_at + LOCKED_FOR - now).total_seconds()))


def _is_recent(user: User, now: datetime) -> bool:
    return user.wrong_code_at is not None and now - user.wrong_code_at < LOCKED_FOR


def _audit_wrong_code(user: User, address: str) -> None:
    audit(None, "login.refused", user, after={"reason": "wrong code of the second factor", "address": address})


@transaction.atomic
def renew_codes(user: User) -> list[str]:
    """New recovery codes, which are shown only once. The old codes stop working."""
    codes = _new_codes(user)
    audit(user, "factor.codes", user)
    return codes


@transaction.atomic
def remove(user: User, *, session_key: str | None) -> None:
    """Remove the user's own authenticator app, and end the other sessions. PlanError if it is the last second factor of
    a user whose role needs one."""
    User.objects.select_for_update().get(pk=user.pk)
    check_may_remove(user, last=not user.passkeys.exists())
    SecondFactor.objects.filter(user=user).delete()
    forget_codes_without_factor(user)
    audit(user, "factor.remove", user, after={"sessions_ended": end_sessions(user, but=session_key)})
    notices.mail(user, "removed")


def check_may_remove(user: User, *, last: bool) -> None:
    """PlanError if `user` cannot be without the second factor; `last` says whether there is no other."""
    if last and policy.required(user):
        raise PlanError(
            "password", "your role needs a second factor", hint="add another one first, or ask an admin to reset it"
        )


@transaction.atomic
def reset(user: User, *, by: User | None) -> None:
    """Remove app, passkeys and recovery codes of a user who lost them; all sessions of the user end. `by` None is the
    operator of the server, at a shell. The user is notified."""
    if by is not None:
        require(by, Role.ADMIN, "reset second factor")
        if by.pk == user.pk:
            raise PlanError("user", "this is your own second factor", hint="remove it on the page Account")
    apps, _ = SecondFactor.objects.filter(user=user).delete()
    passkeys, _ = Passkey.objects.filter(user=user).delete()
    if not apps and not passkeys:
        raise PlanError("user", f"{user} has no second factor")
    forget_codes_without_factor(user)
    after = {"user": user.pk, "passkeys": passkeys, "sessions_ended": end_sessions(user)}
    audit(by, "factor.reset", user, after=after)
    notices.mail(user, "reset")


def codes_left(user: User) -> int:
    return RecoveryCode.objects.filter(user=user, used_at=None).count()


def _accept(user: User, code: str) -> bool:
    factor = policy.app(user)
    if factor is None or not (code.isascii() and code.isdecimal() and len(code) == DIGITS):
        return _use_recovery_code(user, code)
    period = _matching_period(factor, code)
    if period is None:
        return False
    factor.last_period = period
    factor.save(update_fields=["last_period"])
    return True


def _plain(typed: str) -> str:
    return typed.replace(" ", "").replace("-", "").lower()


def _matching_period(factor: SecondFactor, code: str) -> int | None:
    """The period of this code; None for a wrong code, and for a code that was accepted before."""
    totp = pyotp.TOTP(vault.decrypt(factor.secret_encrypted, what="the second factor of this user"))
    now, typed = int(time.time()) // PERIOD_S, code.replace(" ", "").encode()
    periods = [now + period for period in PERIODS]
    matching = [period for period in periods if hmac.compare_digest(totp.generate_otp(period).encode(), typed)]
    return next((period for period in matching if period > factor.last_period), None)


def _use_recovery_code(user: User, code: str) -> bool:
    unused = RecoveryCode.objects.filter(user=user, digest=ApiToken.hash(code), used_at=None)
    if not unused.update(used_at=timezone.now()):
        return False
    left = codes_left(user)
    audit(user, "login.recovery_code", user, after={"left": left})
    notices.mail(user, "recovery_code")
    return True


def first_codes(user: User) -> list[str]:
    """Recovery codes for a user who has none left; otherwise none, because the old ones still work."""
    return [] if codes_left(user) else _new_codes(user)


def forget_codes_without_factor(user: User) -> None:
    """Recovery codes replace a second factor, so they go with the last one."""
    if not policy.enrolled(user):
        RecoveryCode.objects.filter(user=user).delete()


def _new_codes(user: User) -> list[str]:
    """New recovery codes such as abcd-efgh-jkmn-pqrs. Each has 79 bits, so a hash without salt is enough."""
    RecoveryCode.objects.filter(user=user).delete()
    codes = ["".join(secrets.choice(ALPHABET) for _ in range(16)) for _ in range(CODES)]
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=ApiToken.hash(code)) for code in codes)
    return ["-".join(code[at : at + 4] for at in range(0, 16, 4)) for code in codes]


def end_sessions(user: User, *, but: str | None = None) -> int:
    """End the sessions of `user`, except the one with the key `but`: their number."""
    rows = Session.objects.filter(user=user)
    rows = rows.exclude(session_key=session_digest(but)) if but else rows
    return int(rows.delete()[1].get(Session._meta.label, 0))

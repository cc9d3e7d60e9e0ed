"""What users learn about changes of their second factor: by mail, and at the next sign-in."""

from __future__ import annotations

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.accounts.notices import mail as outgoing
from apps.infrastructure import waking
from common.errors import ProvingError

TEXTS = {
    "enrolled": ("Second factor enrolled", "An authenticator app was enrolled as your second factor."),
    "removed": ("Authenticator app removed", "An authenticator app was removed from your account."),
    "passkey_added": ("Passkey added", "A passkey was added to your account. It can log in without your password."),
    "passkey_removed": ("Passkey removed", "A passkey was removed from your account."),
    "passkey_blocked": (
        "Passkey blocked",
        "A passkey of your account was used with a signature counter that had not increased. There may be a copy of it,"
        " so it no longer works. Remove it, and check the sessions on the page Account.",
    ),
    "reset": (
        "Second factor reset",
        "An admin reset your second factor. App, passkeys and recovery codes no longer work. Your sessions have ended.",
    ),
    "recovery_code": ("Recovery code used", "A recovery code was used to log in as you. It does not work again."),
}
UNEXPECTED = "If you did not expect this, change your password and inform an admin."
log = logging.getLogger(__name__)


def mail(user: User, kind: str) -> None:
    """Let a worker mail the text `kind` after the commit, if the server sends mail and the user has an address."""
    if user.email and settings.EMAIL_HOST:
        transaction.on_commit(lambda: waking.send("accounts.mail_factor_notice", str(user.pk), kind))


def deliver(user_id: int, kind: str) -> None:
    """Send the text `kind` to the user. A failure is logged."""
    user, (subject, text) = User.objects.get(pk=user_id), TEXTS[kind]
    body = f"{text} User name: {user.username}.\n\n{UNEXPECTED}\n\n{settings.BASE_URL}\n"
    try:
        outgoing.send(user.email, subject, body, f"factor-{kind}-{user.pk}-{timezone.now():%Y%m%d%H%M%S%f}")
    except ProvingError as error:
        log.warning("no mail to %s about the second factor: %s", user, error)


def reset_since(user: User, last_login: datetime | None) -> AuditEntry | None:
    """The newest reset of the user's second factor after `last_login`."""
    rows = AuditEntry.objects.filter(action="factor.reset", after__contains={"user": user.pk})
    return rows.filter(at__gt=last_login).first() if last_login else None

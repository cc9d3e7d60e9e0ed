"""A delivery by mail: plain text, through the server that PROVING_EMAIL_URL names."""

from __future__ import annotations

from smtplib import SMTPException
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage

from common.errors import HostError, PlanError


def check() -> None:
    """PlanError where this server was not told how to send mail."""
    if not settings.EMAIL_HOST:
        hint = "the operator of the server sets PROVING_EMAIL_URL, such as smtp://mail.example.org:25"
        raise PlanError("kind", "this server sends no mail", hint=hint)


def send(to: str, subject: str, text: str, key: str) -> None:
    """Hand a mail to the server; HostError where that does not take it. The same `key` is the same mail again."""
    check()
    name = urlsplit(settings.BASE_URL).hostname
    headers = {"Message-ID": f"<{key}@{name}>", "Auto-Submitted": "auto-generated"}
    subject = f"[{settings.EMAIL_SUBJECT_PREFIX.strip('[] ')}] {subject}"
    try:
        EmailMessage(subject, text, settings.DEFAULT_FROM_EMAIL, [to], headers=headers).send()
    except (SMTPException, OSError) as error:
        raise HostError(settings.EMAIL_HOST, f"did not accept the mail: {error}") from error

"""Tasks of a worker. Each makes one call; the beat starts those without an argument, and `manage.py tick` runs them."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.accounts import upkeep
from apps.accounts.audit import chain, syslog
from apps.accounts.notices import notify
from apps.accounts.second_factor import notices
from apps.accounts.team import people
from apps.infrastructure import waking


@shared_task(name="accounts.deliver")
def deliver(channel_id: str) -> None:
    notify.deliver(int(channel_id))


@shared_task(name="accounts.forgot")
def forgot(email: str) -> None:
    people.forgot(email)


@shared_task(name="accounts.mail_factor_notice")
def mail_factor_notice(user_id: str, kind: str) -> None:
    notices.deliver(int(user_id), kind)


@shared_task(name="accounts.deliver_due")
def deliver_due() -> None:
    """Send due deliveries: after a failed attempt, or if their task was lost."""
    for channel_id in notify.channels_due(timezone.now()):
        waking.carry_out(deliver, str(channel_id))


@shared_task(name="accounts.forget")
def forget() -> None:
    """Delete rows that are no longer needed."""
    upkeep.forget()


@shared_task(name="accounts.secure_audit_log")
def secure_audit_log() -> None:
    """Seal new entries of the audit log, and send them to the syslog receiver."""
    chain.seal()
    syslog.send()

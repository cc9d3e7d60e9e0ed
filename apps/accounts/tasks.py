"""Take an id, make one call. Those of the beat wake workers for what is due; `manage.py tick` has it done at once."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.accounts import waking
from apps.accounts.audit import chain, syslog
from apps.accounts.notices import notify
from apps.accounts.operation import upkeep
from apps.accounts.second_factor import notices
from apps.accounts.team import people


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
    """What failed before, and what had its word lost on the way."""
    for channel_id in notify.channels_due(timezone.now()):
        waking.carry_out(deliver, str(channel_id))


@shared_task(name="accounts.forget")
def forget() -> None:
    """What nobody asks for again."""
    upkeep.forget()


@shared_task(name="accounts.secure_audit_log")
def secure_audit_log() -> None:
    """Seal what was added to the audit log, and send it to the syslog receiver."""
    chain.seal()
    syslog.send()

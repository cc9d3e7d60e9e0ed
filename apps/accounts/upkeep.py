"""Deletes rows every hour that are no longer needed."""

from __future__ import annotations

from datetime import timedelta

from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.utils import timezone

from apps.accounts.models import ApiToken, SecondFactor
from apps.accounts.sessions import SessionStore
from apps.web import idempotency

ENROLMENT_RETENTION = timedelta(hours=1)
LOGIN_RETENTION = timedelta(days=90)


def forget() -> None:
    """Delete old responses for idempotency keys, expired sessions, expired tokens of CI jobs, unfinished enrolments of
    a second factor, failed logins after their lockout, and old records of logins."""
    now = timezone.now()
    idempotency.forget()
    SessionStore.clear_expired()
    ApiToken.objects.filter(job__isnull=False, expires_at__lt=now).delete()
    SecondFactor.objects.filter(confirmed_at=None, created_at__lt=now - ENROLMENT_RETENTION).delete()
    AccessAttempt.objects.filter(attempt_time__lt=now - timedelta(hours=settings.AXES_COOLOFF_TIME)).delete()
    AccessLog.objects.filter(attempt_time__lt=now - LOGIN_RETENTION).delete()

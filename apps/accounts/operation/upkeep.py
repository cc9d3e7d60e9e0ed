"""What is forgotten every hour: nobody will ask for it again."""

from __future__ import annotations

from datetime import timedelta

from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.utils import timezone

from apps.accounts.models import SecondFactor
from apps.accounts.sessions import SessionStore
from apps.accounts.web import idempotency

ENROLMENTS_KEPT_FOR = timedelta(hours=1)
LOGINS_KEPT_FOR = timedelta(days=90)


def forget() -> None:
    """Answers that no client asks for again, sessions that have expired, unfinished enrolments of a second factor,
    failed logins that lock nobody out any more, and the record of logins of long ago."""
    now = timezone.now()
    idempotency.forget()
    SessionStore.clear_expired()
    SecondFactor.objects.filter(confirmed_at=None, created_at__lt=now - ENROLMENTS_KEPT_FOR).delete()
    AccessAttempt.objects.filter(attempt_time__lt=now - timedelta(hours=settings.AXES_COOLOFF_TIME)).delete()
    AccessLog.objects.filter(attempt_time__lt=now - LOGINS_KEPT_FOR).delete()

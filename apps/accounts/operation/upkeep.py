"""What is forgotten every hour: nobody will ask for it again."""

from __future__ import annotations

from datetime import timedelta

from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.utils import timezone

from apps.accounts.sessions import SessionStore
from apps.accounts.web import idempotency

LOGINS_KEPT_FOR = timedelta(days=90)


def forget() -> None:
    """Answers that no client asks for again, sessions that have expired, failed logins that lock nobody out any more,
    and the record of logins of long ago."""
    now = timezone.now()
    idempotency.forget()
    SessionStore.clear_expired()
    AccessAttempt.objects.filter(attempt_time__lt=now - timedelta(hours=settings.AXES_COOLOFF_TIME)).delete()
    AccessLog.objects.filter(attempt_time__lt=now - LOGINS_KEPT_FOR).delete()

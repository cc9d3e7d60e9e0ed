"""The second factor of users who log in with a password."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from apps.accounts.models.users import User

MOST_FAILURES = 10
LOCKED_FOR = timedelta(minutes=15)


class SecondFactor(models.Model):
    """An authenticator app of `user`. While `confirmed_at` is None, its enrolment is not finished."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="second_factor")
    secret_encrypted = models.TextField(editable=False)
    created_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    # Codes of this and of earlier periods of 30 s are refused: each code works once.
    last_period = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0, help_text="wrong codes since the last right one")
    failed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"second factor of {self.user}"

    def locked_s(self, now: datetime) -> int:
        """Seconds until codes are accepted again after too many wrong ones; 0 if they are accepted now."""
        if self.failures < MOST_FAILURES or self.failed_at is None:
            return 0
        return max(0, int((self.failed_at + LOCKED_FOR - now).total_seconds()))


class RecoveryCode(models.Model):
    """A code that replaces the authenticator app once. Only its hash is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once")]

    def __str__(self) -> str:
        return f"recovery code of {self.user}"

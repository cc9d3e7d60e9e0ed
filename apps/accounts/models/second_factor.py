"""The second factor of users who log in with a password."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from apps.accounts.models.users import User

MOST_FAILURES = 10


class SecondFactor(models.Model):
    """An authenticator app of `user`. While `confirmed_at` is None, its enrolment is not finished."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="second_factor")
    secret_encrypted = models.TextField(editable=False)
    created_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    # Codes of this and of earlier periods of 30 s are refused: each code works once.
    last_period = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0, help_text="wrong codes during the enrolment")

    def __str__(self) -> str:
        return f"second factor of {self.user}"


class Passkey(models.Model):
    """A WebAuthn credential of `user`: the second step of a login, or a whole login without the password."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=63)
    credential_id = models.CharField(max_length=1400, unique=True, editable=False, help_text="base64url")
    credential = models.BinaryField(editable=False, help_text="AttestedCredentialData, with the public key")
    user_handle = models.CharField(
        max_length=64, editable=False, help_text="base64url; random, without data of the user"
    )
    sign_count = models.BigIntegerField(help_text="the authenticator's counter at the last use; 0 if it has none")
    is_synced = models.BooleanField(help_text="the authenticator can copy it to other devices of the user")
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)
    # Since a use whose counter had not increased, which means that there are two copies of it.
    blocked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="passkey_name_once")]

    def __str__(self) -> str:
        return f"passkey {self.name} of {self.user}"


class RecoveryCode(models.Model):
    """A code that replaces the authenticator app or the passkey once. Only its hash is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once")]

    def __str__(self) -> str:
        return f"recovery code of {self.user}"

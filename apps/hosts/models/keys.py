"""SSH keys for hosts, and keys that sign agents."""

from __future__ import annotations

from collections.abc import Collection

from django.db import models

from apps.accounts.models.walls import everything
from apps.hosts.models.validators import NAME


class Identity(models.Model):
    """An SSH key pair for logins to hosts. The private key is encrypted at rest, or outside of the database."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    public_key = models.TextField(editable=False, help_text="of a referenced private key: when it was added")
    private_key_encrypted = models.TextField(blank=True, editable=False)
    private_key_from = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="a reference")
    certificate_from = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="a reference")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "identities"

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """The teams of the hosts that it opens, including private ones; empty if no host uses it."""
        with everything():
            return set(self.hosts.order_by().values_list("team_id", flat=True))


class SigningKey(models.Model):
    """A key that signs agents for hosts with the launcher. The private key is encrypted at rest."""

    class State(models.TextChoices):
        NEXT = "next", "next: hosts must trust it before it is used"
        CURRENT = "current"
        RETIRED = "retired"

    state = models.CharField(max_length=7, choices=State)
    public_key = models.TextField(editable=False)
    private_key_encrypted = models.TextField(editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=~models.Q(state="retired"), name="one_signing_key_of_a_state"
            )
        ]

    def __str__(self) -> str:
        return f"signing key {self.pk}"


class AgentSignature(models.Model):
    """The permission of an agent to run as root on hosts with the launcher. There, a higher serial replaces a lower
    one."""

    serial = models.BigIntegerField(primary_key=True)
    sha256 = models.CharField(max_length=64)
    key = models.ForeignKey(SigningKey, on_delete=models.PROTECT, related_name="+")
    signature = models.TextField()
    signed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-serial"]

    def __str__(self) -> str:
        return f"agent {self.sha256[:12]} with serial {self.serial}"

    @property
    def statement(self) -> str:
        """The signed text; see agents/launcher.py."""
        return f"proving-agent 1 {self.serial} {self.sha256}\n"

"""Use of hosts: reservations, consents, remote servers and paths."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.accounts.models import User, Walled
from apps.hosts.models.hosts import Host
from apps.hosts.models.validators import NAME, STORAGE


class Reservation(Walled):
    """A user's reservation of a host: no run starts there until it ends."""

    behind = ("host",)

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="reservations")
    by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    reason = models.CharField(max_length=200)
    until = models.DateTimeField()
    made_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="when it was given up early")
    ended_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["-made_at"]
        indexes = [models.Index(fields=["host", "until"], condition=models.Q(ended_at=None), name="reservation_open")]

    def __str__(self) -> str:
        return f"{self.host} reserved by {self.by} until {self.until:%Y-%m-%d %H:%M}"


class ClusterConsent(Walled):
    """Permission for one kind of use of an existing cluster. The audit log has those that were withdrawn."""

    behind = ("host",)

    class May(models.TextChoices):
        MEASURE = "measure", "measure"
        RESTART = "restart", "restart"
        DISTURB_CLIENTS = "disturb_clients", "disturb the clients of"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="consents")
    data_dir = models.CharField(max_length=4096)
    may = models.CharField(max_length=15, choices=May)
    given_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    given_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["data_dir", "may"]
        constraints = [models.UniqueConstraint(fields=["host", "data_dir", "may"], name="consent_once_per_cluster")]

    def __str__(self) -> str:
        return f"{self.get_may_display()} {self.data_dir} of {self.host}"


class RemoteServer(Walled):
    """A PostgreSQL server that one host with an agent reaches only by SQL. The audit log has its earlier versions."""

    behind = ("host",)

    class SslMode(models.TextChoices):
        DISABLE = "disable", "disable: no TLS"
        PREFER = "prefer", "prefer: TLS if the server offers it"
        REQUIRE = "require", "require: TLS, any certificate"
        VERIFY_CA = "verify-ca", "verify-ca: TLS, a certificate of this CA"
        VERIFY_FULL = "verify-full", "verify-full: TLS, and the host name in the certificate"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="remote_servers")
    name = models.CharField(max_length=63, validators=[NAME])
    addresses = ArrayField(models.CharField(max_length=253), help_text="host names or IP addresses of one cluster")
    port = models.PositiveIntegerField(default=5432)
    database = models.CharField(max_length=63, default="postgres", help_text="where sessions begin")
    use_database = models.BooleanField(
        default=False,
        db_default=False,
        help_text="runs use a schema in this database, which must be empty, instead of creating a database",
    )
    user = models.CharField(max_length=63, help_text="a role that may create databases, or schemas in its database")
    sslmode = models.CharField(max_length=11, choices=SslMode, default=SslMode.VERIFY_FULL)
    wait_minutes = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="how long a run waits for a user to change parameters that SQL cannot set; 0: they are refused",
    )
    ca_certificate = models.TextField(blank=True)
    client_certificate = models.TextField(blank=True)
    client_key_encrypted = models.TextField(blank=True, editable=False)
    client_key_from = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="a reference")
    password_encrypted = models.TextField(blank=True, editable=False)
    password_from = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="a reference")
    checked: Any = models.JSONField(
        default=dict, blank=True, help_text="the agent's answer to the newest successful check"
    )
    check_error: Any = models.JSONField(
        null=True, blank=True, help_text="why the newest check failed; null if it did not"
    )
    checked_at = models.DateTimeField(null=True, blank=True)
    changed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["host", "name"], name="remote_server_once_per_host")]

    def __str__(self) -> str:
        return f"{self.name} of {self.host}"


class AllowedPath(Walled):
    """A place outside the cluster directory that workloads may write to. The audit log has those that were
    withdrawn."""

    behind = ("host",)

    class Kind(models.TextChoices):
        DIRECTORY = "directory", "directory: new files in it, removed with the run"
        FILE = "file", "file: loses its contents"
        DEVICE = "device", "block device: loses its contents"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="allowed_paths")
    path = models.CharField(max_length=1000, validators=[STORAGE])
    kind = models.CharField(max_length=9, choices=Kind)
    given_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    given_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["host", "path"], name="allowed_path_once_per_host")]

    def __str__(self) -> str:
        return f"{self.path} of {self.host}"

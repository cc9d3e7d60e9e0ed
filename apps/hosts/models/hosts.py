"""Hosts, their pinned host keys, their facts, problems that runs left on them, and leases."""

from __future__ import annotations

import shlex
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone

from apps.accounts.models import Owned, User, Walled
from apps.hosts.models.keys import Identity
from apps.hosts.models.validators import ACCOUNT, LABEL, NAME, PATH

LAUNCHER = "/usr/local/sbin/proving-agent"


class Host(Owned):
    class State(models.TextChoices):
        NEW = "new", "new: its host key is not approved yet"
        READY = "ready", "ready"
        UNREACHABLE = "unreachable", "unreachable"
        UNFIT = "unfit", "not ready: a health check failed"
        QUARANTINED = "quarantined", "quarantined: an admin has to check it"
        ARCHIVE = "archive", "archive: exists only in imported results"

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    labels = ArrayField(
        models.CharField(max_length=63, validators=[LABEL]),
        default=list,
        blank=True,
        help_text="labels that decisions can use, such as oltp or rack=b2",
    )
    address = models.CharField(max_length=253, blank=True, help_text="host name or IP address")
    port = models.PositiveIntegerField(default=22)
    user = models.CharField(max_length=32, blank=True, validators=[ACCOUNT], help_text="login name for SSH")
    sudo = models.BooleanField(default=False, help_text="run the agent through sudo -n (level root)")
    launcher = models.BooleanField(
        default=False,
        db_default=False,
        help_text="start the agent through /usr/local/sbin/proving-agent, which verifies the server's signature",
    )
    identity = models.ForeignKey(Identity, null=True, blank=True, on_delete=models.PROTECT, related_name="hosts")
    jump = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, help_text="jump host")
    python = models.CharField(max_length=200, default="/usr/bin/python3", validators=[PATH], help_text="3.9 or newer")
    spool_dir = models.CharField(max_length=200, default="/var/lib/proving-ground/spool", validators=[PATH])
    data_dir = models.CharField(max_length=200, default="/var/lib/proving-ground/clusters", validators=[PATH])
    pg_bin_dirs: Any = models.JSONField(default=list, blank=True, help_text="further PostgreSQL bin directories")
    pg_data_dirs: Any = models.JSONField(default=list, blank=True, help_text="further data directories of clusters")
    may_reboot = models.BooleanField(default=False, help_text="campaigns may restart this host between runs")
    os_user = models.CharField(max_length=32, blank=True, validators=[ACCOUNT], help_text="runs PostgreSQL for root")
    state = models.CharField(max_length=12, choices=State, default=State.NEW)
    state_reason = models.TextField(blank=True)
    machine_id = models.CharField(max_length=64, blank=True, db_index=True)
    claimed_machine_id = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="refused until an admin accepts it",
    )
    level = models.CharField(max_length=4, blank=True, help_text="root or user, as reported by the agent")
    supervisor = models.CharField(max_length=8, blank=True, help_text="supervision of its runs: systemd or detached")
    units = models.CharField(
        max_length=11, blank=True, help_text="systemd units: current, outdated, absent, unavailable"
    )
    agent_digest = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=32, blank=True, help_text="version of the server that sent the agent")
    last_contact_at = models.DateTimeField(null=True, blank=True)
    windows: Any = models.JSONField(
        default=list,
        blank=True,
        help_text='maintenance windows: [{"days": [0-6, 0 is Monday], "from", "to"}]; [] always',
    )
    time_zone = models.CharField(
        max_length=63, default="UTC", help_text="time zone of the windows, such as Europe/Athens"
    )
    health: Any = models.JSONField(default=list, blank=True, help_text='[{"check", "ok", "found", "wanted"}]')
    health_checked_at = models.DateTimeField(null=True, blank=True)
    check_requested_at = models.DateTimeField(null=True, blank=True)
    release_requested_at = models.DateTimeField(null=True, blank=True)
    release_requested_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        indexes = [GinIndex(fields=["labels"], name="host_by_label")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state="archive")
                | (models.Q(identity__isnull=False) & ~models.Q(address="") & ~models.Q(user="")),
                name="only_an_archive_cannot_be_reached",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def facts(self) -> dict[str, Any]:
        """The newest facts, or {} before the first check."""
        newest = self.facts_history.order_by("-number").first()
        return newest.data if newest else {}

    @property
    def guard_command(self) -> str:
        """The command that restores everything in a shell on the host, without any server."""
        return shlex.join([*(["sudo"] if self.sudo else []), *self.agent_command("guard")])

    def agent_command(self, verb: str, sha256: str = "") -> list[str]:
        """Return the command for a verb of the agent with this sha256 (default: the one that ran last), without
        sudo."""
        agent = sha256 or self.agent_digest or "HASH"
        python = [self.python, "-I", f"{self.spool_dir}/agent/{agent}.pyz"]
        start = [LAUNCHER, "run", agent] if self.launcher else python
        return [*start, verb, "--spool", self.spool_dir]

    @property
    def is_root_for_its_account(self) -> bool:
        """Whether sudo lets the account run any program as root, because there is no launcher."""
        return self.sudo and not self.launcher

    @property
    def pinned_key(self) -> HostKey | None:
        return self.host_keys.filter(state=HostKey.State.PINNED).first()


class HostKey(Walled):
    """A public key that a host presented. One is pinned; earlier ones remain as history."""

    behind = ("host",)

    class State(models.TextChoices):
        OFFERED = "offered"
        PINNED = "pinned"
        RETIRED = "retired"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="host_keys")
    key = models.TextField(help_text="as in known_hosts: algorithm and base64")
    fingerprint = models.CharField(max_length=100)
    machine_id = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="of the machine with this key; see machines.py"
    )
    state = models.CharField(max_length=8, choices=State, default=State.OFFERED)
    seen_at = models.DateTimeField(auto_now_add=True)
    approved_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    approved_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["host"], condition=models.Q(state="pinned"), name="one_pinned_key_per_host")
        ]

    def __str__(self) -> str:
        return f"{self.host} {self.fingerprint} ({self.state})"


class Facts(Walled):
    """A version of a host's facts: the lasting part of `data`, see facts/changes.py.

    The rest of `data`, such as free memory, is from the last check of this version."""

    behind = ("host",)

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="facts_history")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    data: Any = models.JSONField()
    taken_at = models.DateTimeField(default=timezone.now, help_text="when it was first found")
    seen_at = models.DateTimeField(default=timezone.now, help_text="when it was last found")

    class Meta:
        ordering = ["-number"]
        verbose_name_plural = "facts"
        constraints = [models.UniqueConstraint(fields=["host", "number"], name="facts_number_once_per_host")]

    def __str__(self) -> str:
        return f"{self.host} facts {self.number}"


class Trouble(Walled):
    """A problem that a run left on a host; open until a user resolves it."""

    behind = ("host",)

    class Kind(models.TextChoices):
        CONFLICT = "conflict", "changed by another user or program, not restored"
        DIRTY = "dirty", "not restored"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="troubles")
    run = models.UUIDField(help_text="the run that left it")
    kind = models.CharField(max_length=8, choices=Kind)
    keys: Any = models.JSONField(default=list, help_text='[{"key", "original", "ours", "found"}]')
    problems: Any = models.JSONField(default=list, help_text="other obstacles, as reported by the agent")
    opened_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    resolution = models.TextField(blank=True, help_text="how it was resolved: by restoring, or by whom")

    class Meta:
        ordering = ["-opened_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["run", "kind"], name="one_trouble_of_a_kind_per_run")]
        indexes = [models.Index(fields=["host"], condition=models.Q(closed_at=None), name="trouble_open")]

    def __str__(self) -> str:
        return f"{self.host}: {self.get_kind_display()}"


class Lease(models.Model):
    """The right to run on one machine: one row per machine-id, however many names the host has."""

    machine_id = models.CharField(max_length=64, primary_key=True)
    run = models.UUIDField(null=True, unique=True, help_text="the run that uses the machine")
    epoch = models.PositiveBigIntegerField(default=0, help_text="increases with each acquisition")
    expires_at = models.DateTimeField(null=True, help_text="expiry moves supervision, never the machine")

    def __str__(self) -> str:
        return f"{self.machine_id} used by {self.run or 'no run'} (epoch {self.epoch})"

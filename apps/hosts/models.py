"""Hosts, the identities that reach them, the keys they are pinned to, facts, and the lease of a machine."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import Owned, User, Walled
from apps.accounts.models.walls import everything

# Not the words that stand in the place of a name in our own addresses.
NAME = RegexValidator(
    r"^(?!(add|keys|new)$)[a-z0-9][a-z0-9._-]{0,62}$",
    "use 1 to 63 of a-z, 0-9, dot, dash and underscore, but not add, keys or new",
)
PATH = RegexValidator(r"^/[A-Za-z0-9._/-]+$", "use an absolute path of letters, digits, dot, dash, underscore and /")
# What fio reads as it stands: no colon, for it separates files, and nothing that it would expand.
STORAGE = RegexValidator(r"^/[^\x00-\x20:$`\\;#\"'*?]*$", "use an absolute path without spaces, colons and quotes")
LABEL = RegexValidator(r"^[a-z0-9][a-z0-9._=/-]{0,62}$", "use 1 to 63 of a-z, 0-9, dot, dash, underscore, = and /")
LAUNCHER = "/usr/local/sbin/proving-agent"
ACCOUNT = RegexValidator(r"^[a-z_][a-z0-9_-]{0,31}\$?$", "use a Linux account name")


class Identity(models.Model):
    """An SSH key pair that we log in with. The private half is encrypted at rest."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME])
    public_key = models.TextField(editable=False)
    private_key_encrypted = models.TextField(editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "identities"

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """Whose hosts it opens, private ones included; none where no host has it yet."""
        with everything():
            return set(self.hosts.order_by().values_list("team_id", flat=True))


class SigningKey(models.Model):
    """A key that signs agents for hosts with the launcher. The private half is encrypted at rest."""

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
    """Our word that an agent may run as root on hosts with the launcher; a higher serial replaces a lower one there."""

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
        """What is signed; see agents/launcher.py."""
        return f"proving-agent 1 {self.serial} {self.sha256}\n"


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
        max_length=64, blank=True, editable=False, help_text="refused until an admin accepts it"
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
        """What puts everything back on the host's own shell, without any server."""
        return shlex.join([*(["sudo"] if self.sudo else []), *self.agent_command("guard")])

    def agent_command(self, verb: str, sha256: str = "") -> list[str]:
        """What starts a verb of the agent with this sha256, by default the one that ran last, without sudo."""
        agent = sha256 or self.agent_digest or "HASH"
        python = [self.python, "-I", f"{self.spool_dir}/agent/{agent}.pyz"]
        start = [LAUNCHER, "run", agent] if self.launcher else python
        return [*start, verb, "--spool", self.spool_dir]

    @property
    def is_root_for_its_account(self) -> bool:
        """Whether sudo lets the account run any program as root, for want of the launcher."""
        return self.sudo and not self.launcher

    @property
    def pinned_key(self) -> HostKey | None:
        return self.host_keys.filter(state=HostKey.State.PINNED).first()


class Reservation(Walled):
    """A person's claim on a host: no run begins there until it ends."""

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
    """One thing that may be done to one cluster that is on the host already; the audit log keeps what was withdrawn."""

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
    user = models.CharField(max_length=63, help_text="a role that may create databases")
    sslmode = models.CharField(max_length=11, choices=SslMode, default=SslMode.VERIFY_FULL)
    wait_minutes = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="how long a run waits for a user to change parameters that SQL cannot set; 0: they are refused",
    )
    ca_certificate = models.TextField(blank=True)
    client_certificate = models.TextField(blank=True)
    client_key_encrypted = models.TextField(blank=True, editable=False)
    password_encrypted = models.TextField(blank=True, editable=False)
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
    """Where workloads may write on a host besides its cluster directory; the audit log keeps what was withdrawn."""

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


class HostKey(Walled):
    """A public key that a host showed. One is pinned; earlier ones stay as history."""

    behind = ("host",)

    class State(models.TextChoices):
        OFFERED = "offered"
        PINNED = "pinned"
        RETIRED = "retired"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="host_keys")
    key = models.TextField(help_text="as in known_hosts: algorithm and base64")
    fingerprint = models.CharField(max_length=100)
    machine_id = models.CharField(max_length=64, blank=True, help_text="of the machine with this key; see machines.py")
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
    """What the agent found on a host: a version, which is what lasts of `data`; see facts/changes.py. The rest of
    `data`, such as free memory, is as it was when the version was last seen."""

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
    """What a run left on a host that a person should know of; open until somebody has seen to it."""

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
    """The right to run on one physical machine: one row per machine-id, however many names it has."""

    machine_id = models.CharField(max_length=64, primary_key=True)
    run = models.UUIDField(null=True, unique=True, help_text="the run that uses the machine")
    epoch = models.PositiveBigIntegerField(default=0, help_text="increases with each acquisition")
    expires_at = models.DateTimeField(null=True, help_text="expiry moves supervision, never the machine")

    def __str__(self) -> str:
        return f"{self.machine_id} used by {self.run or 'no run'} (epoch {self.epoch})"

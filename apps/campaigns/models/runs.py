"""Runs, the jobs of other machines in them, their events and artefacts; the legal transitions of a run."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.utils import timezone

from apps.accounts.models import Walled, WalledQuerySet
from apps.campaigns.models.campaign import Campaign
from apps.hosts.models import Host
from apps.infrastructure.months import KEPT, month_of

M = TypeVar("M", bound=models.Model)
FAR = timedelta(minutes=2)


class RunQuerySet(WalledQuerySet["Run"]):
    def active(self) -> RunQuerySet:
        """Return the runs that the agent may know of: submitted and not ended."""
        return self.filter(state__in=[Run.State.SUBMITTING, Run.State.RUNNING])

    def due(self, now: datetime) -> RunQuerySet:
        """Unclaimed runs whose tick is due. Ticks and claims reach seconds ahead: one that is FAR was written before
        the clock was set back."""
        far = now + FAR
        unclaimed = models.Q(claimed_until=None) | models.Q(claimed_until__lt=now) | models.Q(claimed_until__gt=far)
        is_due = models.Q(next_tick_at__lte=now) | models.Q(next_tick_at__gt=far)
        return self.filter(unclaimed, is_due).exclude(state=Run.State.ENDED)


class JobFields(Walled):
    """The job of one agent: its resolved spec, and its state."""

    class State(models.TextChoices):
        QUEUED = "queued"
        SUBMITTING = "submitting"
        RUNNING = "running"
        ENDED = "ended"

    class Outcome(models.TextChoices):
        OK = "ok"
        FAILED = "failed"
        CANCELLED = "cancelled"
        INTERRUPTED = "interrupted"
        NOT_IN_EFFECT = "not_in_effect", "not in effect"

    spec: Any = models.JSONField(help_text="resolved and immutable; see agents/wire/protocol.py")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    outcome = models.CharField(max_length=13, choices=Outcome, blank=True)
    error: Any = models.JSONField(null=True, blank=True, help_text="error in the format of agents/wire/protocol.py")
    agent_state = models.CharField(max_length=20, blank=True)
    facts = models.ForeignKey("hosts.Facts", null=True, on_delete=models.PROTECT, related_name="+")
    epoch = models.PositiveBigIntegerField(null=True)
    events_offset = models.PositiveBigIntegerField(default=0, help_text="bytes of events.ndjson that were processed")
    events_damaged = models.PositiveIntegerField(default=0, help_text="damaged lines on the host's disk")
    last_seq = models.PositiveIntegerField(default=0)
    manifest: Any = models.JSONField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def start(self) -> datetime | None:
        """When its run started."""
        raise NotImplementedError

    @property
    def event_log(self) -> models.QuerySet[RunEvent]:
        """Its events. Their number of months does not matter, unlike with `events`."""
        return self.in_its_months(self.events.all())  # type: ignore[attr-defined]

    def in_its_months(self, rows: models.QuerySet[M]) -> models.QuerySet[M]:
        """Return its rows in a table by month, read only from the partitions that may have them."""
        return rows.filter(month__in=(KEPT, month_of(self.start))) if self.start else rows


class Run(JobFields):
    """One cell of the design in one repetition, and its outcome."""

    behind = ("campaign",)
    numerous = True

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The index `run_content` is also that of its campaign.
    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="runs", db_index=False)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="runs")
    position = models.PositiveIntegerField(help_text="position in the order of the campaign, from 0")
    block = models.PositiveIntegerField(help_text="repetition, from 0")
    cell: Any = models.JSONField(help_text="factor -> level label")
    retry_of = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="retries")
    agent_state_at = models.DateTimeField(null=True, blank=True)
    step = models.CharField(max_length=40, blank=True)
    next_tick_at = models.DateTimeField(null=True, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    claim = models.UUIDField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    proof: Any = models.JSONField(null=True, blank=True, help_text='{"checked", "ok", "lines": [results]}')
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ingested_at = models.DateTimeField(null=True, blank=True, help_text="when its results were processed")
    read_attempts = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="attempts to read its results that did not end"
    )
    content_hash = models.BigIntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="of what the answers of its campaign depend on; set by the trigger run_content, 0 in older rows",
    )

    objects = RunQuerySet.as_manager()  # type: ignore[misc]  # instead of that of Walled

    class Meta:
        ordering = ["campaign", "position"]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "position"], name="position_once_per_campaign"),
            models.UniqueConstraint(fields=["retry_of"], name="retried_once"),
            models.CheckConstraint(
                condition=models.Q(state="ended") ^ models.Q(outcome=""), name="outcome_when_and_only_when_ended"
            ),
        ]
        indexes = [
            models.Index(fields=["campaign"], include=["content_hash", "host", "facts"], name="run_content"),
            models.Index(fields=["next_tick_at"], condition=~models.Q(state="ended"), name="run_due"),
            models.Index(fields=["ended_at"], condition=models.Q(ingested_at=None), name="run_to_ingest"),
            # Few runs are active or waiting, whatever the history.
            models.Index(fields=["host"], condition=~models.Q(state="ended"), name="run_open_on_host"),
            models.Index(fields=["host", "-ended_at"], name="run_newest_on_host"),
            models.Index(
                fields=["campaign"],
                condition=models.Q(outcome__in=["failed", "interrupted", "not_in_effect"]),
                name="run_not_ok",
            ),
            models.Index(
                fields=["host", "-ended_at"],
                condition=models.Q(manifest__timings__has_key="REBOOTING"),
                name="run_that_restarted",
            ),
            # The runs of a month, for those who drop its details. It takes a few kB, whatever the number of runs.
            BrinIndex(fields=["started_at"], name="run_by_start"),
        ]

    def __str__(self) -> str:
        return f"{self.campaign} #{self.position + 1}"

    @property
    def start(self) -> datetime | None:
        return self.started_at

    @property
    def event_logs_of_parts(self) -> models.QuerySet[RunEvent]:
        return self.in_its_months(RunEvent.objects.filter(part__run=self))

    @cached_property
    def label(self) -> str:
        """The levels of this run, such as "2 cpus", in the order of the design. The order of jsonb is another one."""
        names = [factor["name"] for factor in self.campaign.factors]
        return ", ".join(self.cell[name] for name in names if name in self.cell)

    @property
    def doing(self) -> str:
        """What its agent does now, for users."""
        if self.agent_state == "REBOOTING" and self.agent_state_at:
            return f"restarting the host since {self.agent_state_at:%H:%M}"
        if self.agent_state == "WAITING":
            return "waiting for a change by hand"
        return f"{self.agent_state.lower().replace('_', ' ')} {self.step}".strip()

    def claim_tick(self, seconds: float) -> bool:
        """Claim this run for one tick. False if another worker has it or it is not due, as after a redelivery."""
        now, token = timezone.now(), uuid.uuid4()
        until = now + timedelta(seconds=seconds)
        claimed = Run.objects.due(now).filter(pk=self.pk).update(claim=token, claimed_until=until)
        if claimed:
            self.refresh_from_db(from_queryset=Run.objects.select_related("campaign", "host__identity"))
        return bool(claimed) and self.claim == token  # another worker took over while this process was suspended

    def mine(self) -> RunQuerySet:
        """Return this row if this worker's claim is still valid. Every write of a tick uses it.

        Unordered, because an order would also lock the campaign's row."""
        return Run.objects.filter(pk=self.pk, claim=self.claim).order_by()


class RunPart(JobFields):
    """The job of another machine in a run. If a client has its own host, that host has the run itself."""

    behind = ("run",)
    numerous = True

    class Role(models.TextChoices):
        SERVER = "server", "server"
        STANDBY = "standby", "standby"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False, help_text="of the job on its host")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="parts")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="run_parts")
    role = models.CharField(max_length=7, choices=Role)
    position = models.PositiveIntegerField(help_text="in the order of their starts, from 0")

    class Meta:
        ordering = ["run", "position"]
        constraints = [models.UniqueConstraint(fields=["run", "position"], name="part_position_once_per_run")]

    def __str__(self) -> str:
        return f"{self.role} of {self.run} on {self.host}"

    @property
    def start(self) -> datetime | None:
        return self.run.started_at

    @property
    def name(self) -> str:
        """The name of the part in its run: "server", "standby1"."""
        return str(self.spec["target"].get("name", self.role))


# Which of two columns has the owner of a row.
OF_RUN_OR_PART = models.Q(run=None) ^ models.Q(part=None)


class RunEvent(Walled):
    """One line of the event log of a job, stored once however often it is read.

    An event of a part has no run, so `run.events` only has events of the run's own host, and `part.events` those of
    the part."""

    behind = ("run", "part")

    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="events", db_index=False)
    part = models.ForeignKey(RunPart, null=True, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=12)
    data: Any = models.JSONField()
    month = models.DateField(
        default=KEPT,
        db_default=KEPT,
        help_text="first day of the month in which the run started: selects the partition",
    )

    class Meta:
        ordering = ["seq"]
        # All events of a job have the same month, so these are as strict as without it.
        constraints = [
            models.UniqueConstraint(fields=["run", "seq", "month"], name="event_once"),
            # Both are also the indexes of the foreign keys. This one is small because most events are of runs.
            models.UniqueConstraint(
                fields=["part", "seq", "month"], condition=models.Q(part__isnull=False), name="event_once_per_part"
            ),
            models.CheckConstraint(condition=OF_RUN_OR_PART, name="event_of_run_or_part"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id or self.part_id} {self.seq} {self.kind}"


class Artefact(Walled):
    """Raw output of a tool, unchanged, so that it can be parsed again. An artefact of a part, such as the log of its
    PostgreSQL, has no run."""

    behind = ("run", "part")

    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="artefacts")
    part = models.ForeignKey(RunPart, null=True, on_delete=models.CASCADE, related_name="artefacts", db_index=False)
    path = models.CharField(max_length=300, help_text="relative to the job's directory: out/<step>/<name>")
    size = models.PositiveBigIntegerField(help_text="bytes on the host")
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField(null=True, help_text="empty if it was too large to fetch")

    class Meta:
        ordering = ["path"]
        constraints = [
            models.UniqueConstraint(fields=["run", "path"], name="artefact_once"),
            models.UniqueConstraint(
                fields=["part", "path"], condition=models.Q(part__isnull=False), name="artefact_once_per_part"
            ),
            models.CheckConstraint(condition=OF_RUN_OR_PART, name="artefact_of_run_or_part"),
        ]

    def __str__(self) -> str:
        return self.path

"""A schedule: a campaign that repeats; and its slots: what became of each time at which it was due."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from django.db import models

from apps.accounts.models import User, Walled
from apps.campaigns.models.campaign import Campaign


class Schedule(Walled):
    """When clones of a campaign start, and with whose permissions."""

    behind = ("campaign",)

    class State(models.TextChoices):
        ACTIVE = "active", "active"
        PAUSED = "paused", "paused"
        STOPPED = "stopped", "stopped: the owner may no longer start its campaigns"
        DELETED = "deleted", "deleted"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100, help_text="campaigns get this name and the date")
    campaign = models.ForeignKey(
        Campaign, on_delete=models.PROTECT, related_name="schedules", help_text="the campaign to repeat"
    )
    owner = models.ForeignKey(
        User,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="campaigns run with this user's permissions",
    )
    when = models.CharField(max_length=100, help_text="such as daily 02:30 or cron 30 2 * * 1-5")
    time_zone = models.CharField(max_length=63, default="UTC", help_text="such as Europe/Athens")
    windows: Any = models.JSONField(
        default=list, blank=True, help_text='as of a host: [{"days": [0-6, 0 is Monday], "from", "to"}]; [] always'
    )
    late_by_min = models.PositiveIntegerField(default=30, help_text="minutes by which a campaign may start late")
    state = models.CharField(max_length=7, choices=State, default=State.ACTIVE)
    state_reason = models.TextField(blank=True, help_text="why it stopped")
    next_at = models.DateTimeField(null=True, blank=True, help_text="null unless it is active")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=~models.Q(state="deleted"),
                name="schedule_name_once",
                violation_error_message="Another schedule has this name.",
            ),
            models.CheckConstraint(
                condition=models.Q(state="active") ^ models.Q(next_at=None), name="schedule_due_while_active"
            ),
        ]
        indexes = [models.Index(fields=["next_at"], condition=models.Q(state="active"), name="schedule_due")]

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """The teams of its campaign's hosts."""
        return self.campaign.owners


class Slot(Walled):
    """One time at which a schedule was due. Written once, whoever looks and however often."""

    behind = ("schedule", "campaign")

    class Outcome(models.TextChoices):
        STARTING = "starting", "starting"
        STARTED = "started", "started"
        SKIPPED = "skipped", "skipped"
        MISSED = "missed", "missed"
        REFUSED = "refused", "refused"

    schedule = models.ForeignKey(Schedule, on_delete=models.PROTECT, related_name="slots")
    at = models.DateTimeField()
    outcome = models.CharField(max_length=8, choices=Outcome)
    reason = models.TextField(blank=True)
    campaign = models.OneToOneField(Campaign, null=True, blank=True, on_delete=models.PROTECT, related_name="slot")
    decided_at = models.DateTimeField(help_text="when the server looked")
    claimed_until = models.DateTimeField(null=True, blank=True, help_text="while a worker starts its campaign")
    compared_at = models.DateTimeField(
        null=True, blank=True, help_text="when its results were compared with those of earlier ones"
    )
    regression = models.TextField(blank=True, help_text="what is worse than in earlier ones; empty: nothing")

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(fields=["schedule", "at"], name="slot_once"),
            models.CheckConstraint(
                condition=~models.Q(outcome__in=["starting", "started"]) | models.Q(campaign__isnull=False),
                name="slot_started_with_a_campaign",
            ),
        ]
        indexes = [models.Index(fields=["schedule"], condition=models.Q(outcome="starting"), name="slot_starting")]

    def __str__(self) -> str:
        return f"{self.schedule} at {self.at:%Y-%m-%d %H:%M}"

"""A search, its rounds and its trials. They are the whole state of a search: the optimiser stores nothing."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from django.db import models

from apps.accounts.models import User, Walled
from apps.campaigns.models import Campaign


class Search(Walled):
    """Searches for better values of settings than those of a campaign's baseline."""

    behind = ("campaign",)

    class State(models.TextChoices):
        RUNNING = "running", "running"
        PAUSED = "paused", "paused"
        FINISHED = "finished", "finished"
        STOPPED = "stopped", "stopped"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=80, help_text="its campaigns have this name and a number")
    campaign = models.ForeignKey(
        Campaign, on_delete=models.PROTECT, related_name="searches", help_text="host, workload, data and default values"
    )
    owner = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", help_text="campaigns run with this user's permissions"
    )
    second_metric = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="second objective; empty: only the campaign's"
    )
    space: Any = models.JSONField(help_text='a line for each setting: ["work_mem 1MB to 64MB log", "jit on, off"]')
    fixed: Any = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="setting -> value in its own unit: candidates from then on have it",
    )
    earlier: Any = models.JSONField(
        default=list, db_default=[], blank=True, help_text="trials of earlier searches that its optimiser learns from"
    )
    earlier_left_out: Any = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="why other trials of earlier searches are not used -> their number",
    )
    allowed_risks: Any = models.JSONField(
        default=list, blank=True, help_text="settings that risk data and that an admin allowed"
    )
    constraints: Any = models.JSONField(
        default=list, db_default=[], blank=True, help_text='a line for each limit: ["latency_p99 <= 20 ms"]'
    )
    budget_runs = models.PositiveIntegerField(
        null=True, blank=True, help_text="runs in all, those of the confirmation included"
    )
    budget_minutes = models.PositiveIntegerField(
        null=True, blank=True, help_text="in which its runs may execute, those of the confirmation included"
    )
    candidates = models.PositiveSmallIntegerField(default=4, help_text="candidates of a round, beside the default")
    blocks = models.PositiveSmallIntegerField(default=1, help_text="blocks of a round")
    finalists = models.PositiveSmallIntegerField(default=2, help_text="candidates that are confirmed, at most")
    picked: Any = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="numbers of the trials that a user picked to confirm",
    )
    confirmation_blocks = models.PositiveSmallIntegerField(default=5, help_text="blocks of the confirmation")
    seed = models.PositiveBigIntegerField()
    run_s = models.FloatField(help_text="estimated seconds of a run when it was created")
    state = models.CharField(max_length=8, choices=State, default=State.RUNNING)
    state_reason = models.TextField(blank=True, help_text="why it paused, or ended without a confirmation")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="search_newest"),
            models.Index(fields=["state"], condition=models.Q(state="running"), name="search_running"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~models.Q(budget_runs=None, budget_minutes=None), name="search_has_a_budget"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """The teams of its campaign's hosts."""
        return self.campaign.owners


class Round(Walled):
    """A campaign of a search that runs candidates beside the default."""

    behind = ("search", "campaign")

    class Kind(models.TextChoices):
        SEARCH = "search", "search"
        CONFIRMATION = "confirmation", "confirmation"

    class State(models.TextChoices):
        STARTING = "starting", "starting"
        RUNNING = "running", "running"
        DONE = "done", "done"

    search = models.ForeignKey(Search, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField(help_text="from 1")
    kind = models.CharField(max_length=12, choices=Kind, default=Kind.SEARCH)
    state = models.CharField(max_length=8, choices=State, default=State.STARTING)
    campaign = models.OneToOneField(Campaign, on_delete=models.PROTECT, related_name="search_round")
    claimed_until = models.DateTimeField(null=True, blank=True, help_text="while a worker starts its campaign")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["search", "number"], name="round_once")]
        indexes = [models.Index(fields=["search"], condition=~models.Q(state="done"), name="round_open")]

    def __str__(self) -> str:
        return f"{self.search} {self.number}"


class Trial(Walled):
    """A candidate: its values, state and figures. The figures are log ratios to the default in the same blocks, above 0
    if the candidate is better."""

    behind = ("search",)

    class State(models.TextChoices):
        ASKED = "asked", "waiting for results"
        MEASURED = "measured", "measured"
        UNSTABLE = "unstable", "unstable"
        FAILED = "failed", "failed"
        NOT_IN_EFFECT = "not_in_effect", "not in effect"
        BREAKS_LIMIT = "breaks_limit", "breaks a constraint"
        REFUSED = "refused", "refused"

    search = models.ForeignKey(Search, on_delete=models.CASCADE, related_name="trials")
    number = models.PositiveIntegerField(help_text="from 1")
    values: Any = models.JSONField(help_text="setting -> value in the setting's own unit")
    state = models.CharField(max_length=13, choices=State, default=State.ASKED)
    reason = models.TextField(blank=True, db_default="", help_text="why it is bad")
    checks: Any = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text='[{"constraint": "latency_p99 <= 20 ms", "value": 25.3, "is_met": false}]',
    )
    blocks = models.PositiveIntegerField(default=0, help_text="in which both it and the default have a result")
    log_ratio = models.FloatField(null=True, blank=True, help_text="mean")
    low = models.FloatField(null=True, blank=True, help_text="of the interval that holds over all rounds")
    high = models.FloatField(null=True, blank=True)
    second_log_ratio = models.FloatField(null=True, blank=True, help_text="of the second metric")
    second_low = models.FloatField(null=True, blank=True)
    second_high = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["search", "number"], name="trial_once"),
            models.UniqueConstraint(fields=["search", "values"], name="trial_values_once"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """Its level in the campaigns of the search."""
        return f"trial {self.number}"

    @property
    def is_promising(self) -> bool:
        """Whether its interval excludes the default on the better side by at least one metric."""
        ends = [end for end in (self.low, self.second_low) if end is not None]
        return self.state == self.State.MEASURED and max(ends, default=0.0) > 0

    @property
    def is_bad(self) -> bool:
        """Whether it is not confirmed, and the optimiser has to avoid its values."""
        return self.state not in (self.State.ASKED, self.State.MEASURED)

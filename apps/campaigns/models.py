"""Workloads, data sets and where they live, campaigns, runs with their events and artefacts, and the legal transitions
of a run."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from agents.collectors import COLLECTORS
from apps.accounts.models import User
from apps.campaigns import data, steps
from apps.campaigns.steps import Step
from apps.hosts.models import NAME, Host
from apps.tuning.models import Revision


class Workload(models.Model):
    """What is run: named steps, each with a role, a tool and its options. Changing one makes the next revision."""

    name = models.CharField(max_length=63, validators=[NAME])
    revision = models.PositiveIntegerField(default=1)
    steps: Any = models.JSONField(help_text='[{"name", "role", "kind", "options"}]')
    digest = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    author = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-revision"]
        constraints = [models.UniqueConstraint(fields=["name", "revision"], name="workload_revision_once")]

    def __str__(self) -> str:
        return f"{self.name} r{self.revision}"

    @property
    def kinds(self) -> str:
        """Its tools, such as "sql, pgbench"."""
        return steps.kinds(self.steps)

    @property
    def imported(self) -> bool:
        """Whether it only tells what was measured elsewhere."""
        return steps.imported(self.steps)


class DataSet(models.Model):
    """How data are made: by pgbench, or by SQL. Changing one makes the next revision."""

    name = models.CharField(max_length=63, validators=[NAME])
    revision = models.PositiveIntegerField(default=1)
    kind = models.CharField(max_length=20)
    options: Any = models.JSONField(default=dict, blank=True, help_text="what its kind accepts")
    reset = models.CharField(max_length=6, default="auto", help_text="what makes it pristine for a run that writes")
    digest = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    author = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-revision"]
        constraints = [models.UniqueConstraint(fields=["name", "revision"], name="dataset_revision_once")]

    def __str__(self) -> str:
        return f"{self.name} r{self.revision}"

    @property
    def brief(self) -> str:
        """How it is made, in short."""
        return data.brief(self.kind, self.options)

    @property
    def wanted(self) -> dict[str, Any]:
        """It in a spec, in the shape of agents/protocol.py."""
        return {"name": str(self), "kind": self.kind, "options": self.options, "reset": self.reset}


class OwnRecipe(models.Model):
    """A recipe of the team, as it was written. Changing one makes the next version; none is ever changed."""

    name = models.CharField(max_length=40)
    version = models.PositiveIntegerField()
    text = models.TextField(help_text="YAML, with its comments")
    content: Any = models.JSONField(help_text="what the text says")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="own_recipe_version_once")]

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"


def all_sources() -> list[str]:
    return list(COLLECTORS)


class Campaign(models.Model):
    """A question, the factors that may answer it, and the runs that were planned from them."""

    class Kind(models.TextChoices):
        COMPARISON = "comparison", "comparison: levels of factors, measured"
        PREPARATION = "preparation", "preparation: a data set is made, or removed"
        IMPORTED = "imported", "imported: measured elsewhere"

    class State(models.TextChoices):
        DRAFT = "draft"
        RUNNING = "running"
        PAUSED = "paused"
        FINISHED = "finished"
        CANCELLED = "cancelled"

    class Design(models.TextChoices):
        FACTORIAL = "factorial", "full factorial: every combination of levels"
        ONE_AT_A_TIME = "one_at_a_time", "one factor at a time, from the first levels"
        LIST = "list", "the combinations that are listed"
        LATIN_SQUARE = "latin_square", "Latin square of three factors"
        RANDOM_SAMPLE = "random_sample", "a random sample of the combinations"

    class Order(models.TextChoices):
        RANDOMISED = "randomised", "randomised blocks"
        AS_GIVEN = "as_given", "as given"
        DESCENDING = "descending", "descending"
        ABBA = "abba", "ABBA: every second block backwards"
        FEWEST_RESTARTS = "fewest_restarts", "fewest restarts of the server"

    class Placement(models.TextChoices):
        ONE = "one", "one host"
        EACH = "each", "every combination on each host"
        SPREAD = "spread", "spread over identical hosts"

    class Reboot(models.TextChoices):
        NEVER = "never", "never"
        EACH_REPETITION = "each_repetition", "before each repetition"
        EACH_RUN = "each_run", "before each run"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=11, choices=Kind, default=Kind.COMPARISON)
    name = models.CharField(max_length=120)
    question = models.TextField()
    recipe = models.CharField(max_length=40, blank=True)
    recipe_version = models.PositiveIntegerField(null=True, blank=True, help_text="that of the recipe when it was made")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="campaigns")
    profile = models.ForeignKey(Revision, null=True, blank=True, on_delete=models.PROTECT, related_name="campaigns")
    workload = models.ForeignKey(
        Workload, null=True, blank=True, on_delete=models.PROTECT, related_name="campaigns", help_text="of a comparison"
    )
    dataset = models.ForeignKey(DataSet, null=True, blank=True, on_delete=models.PROTECT, related_name="campaigns")
    target: Any = models.JSONField(
        default=dict, blank=True, help_text='{} (a private cluster), {"bin_dir"}, or {"data_dir"} of an existing one'
    )
    placement = models.CharField(max_length=6, choices=Placement, default=Placement.ONE)
    further_hosts = models.ManyToManyField(
        Host, blank=True, related_name="further_campaigns", help_text="beside the first: each a block, or identical"
    )
    roles: Any = models.JSONField(
        default=dict, blank=True, help_text='{"client": host id, "standbys": [host ids]}; the server is on the host'
    )
    priority = models.SmallIntegerField(default=0, help_text="in the queue of its hosts: the highest goes first")
    design = models.CharField(max_length=13, choices=Design, default=Design.FACTORIAL)
    factors: Any = models.JSONField(
        help_text='[{"name", "order", "levels": [{"label", "set": {path: value}, "when": {factor: [labels]}}]}]'
    )
    cells: Any = models.JSONField(default=list, blank=True, help_text="of a list: [{factor: label}]")
    sample = models.PositiveIntegerField(null=True, blank=True, help_text="combinations of a random sample")
    repetitions = models.PositiveIntegerField(default=5)
    order = models.CharField(max_length=15, choices=Order, default=Order.RANDOMISED)
    seed = models.PositiveBigIntegerField()
    reboot = models.CharField(max_length=15, choices=Reboot, default=Reboot.NEVER, help_text="restart the host")
    nuisance: Any = models.JSONField(
        default=dict, blank=True, help_text='{"cool_down_s", "checkpoint", "drop_caches", "warm_up": {...}}'
    )
    stop: Any = models.JSONField(
        default=dict, blank=True, help_text='{} (all repetitions), or {"until", "between": [cell, cell], "width"}'
    )
    budget_h = models.FloatField(null=True, blank=True, help_text="hours after which no further run begins")
    max_failures = models.PositiveIntegerField(null=True, blank=True, help_text="runs that may fail before it pauses")
    metric = models.CharField(
        max_length=80, default="tps", blank=True, help_text="step.name where several are measured; empty where none is"
    )
    delta = models.FloatField(default=0.02, help_text="the margin that matters, as a share: 0.02 is 2 %")
    interval_s = models.FloatField(default=1.0, help_text="seconds between two samples of each collector")
    sources: Any = models.JSONField(default=all_sources, blank=True, help_text="names of the collectors that look on")
    state = models.CharField(max_length=10, choices=State, default=State.DRAFT)
    state_reason = models.TextField(blank=True, help_text="why it paused, or ended before its last run")
    open_blocks = models.PositiveIntegerField(
        null=True, blank=True, help_text="blocks that may begin: the next one waits for a look; empty: all"
    )
    forgiven_failures = models.PositiveIntegerField(default=0, help_text="runs that had failed when it was resumed")
    extensions: Any = models.JSONField(
        default=list, blank=True, help_text='[{"at", "by", "repetitions", "levels", "seen": ok runs before it}]'
    )
    cloned_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="clones")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="campaign_newest"),
            models.Index(fields=["-ended_at", "-id"], name="campaign_ended"),
            models.Index(fields=["host", "-ended_at", "-id"], name="campaign_ended_on_host"),
            models.Index(
                fields=["state"], condition=~models.Q(state__in=["finished", "cancelled"]), name="campaign_open"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def steps(self) -> list[Step]:
        """Of its workload; none where it has no workload."""
        return list(self.workload.steps) if self.workload else []


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> RunQuerySet:
        """Runs that the agent may know of: submitted and not ended."""
        return self.filter(state__in=[Run.State.SUBMITTING, Run.State.RUNNING])

    def due(self, now: datetime) -> RunQuerySet:
        """Runs that want a tick and that nobody works on."""
        unclaimed = models.Q(claimed_until=None) | models.Q(claimed_until__lt=now)
        return self.filter(unclaimed, next_tick_at__lte=now).exclude(state=Run.State.ENDED)


class Run(models.Model):
    """One cell of the design, once: a resolved spec, and what became of it."""

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

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="runs")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="runs")
    position = models.PositiveIntegerField(help_text="place in the order of the campaign, from 0")
    block = models.PositiveIntegerField(help_text="repetition, from 0")
    cell: Any = models.JSONField(help_text="factor -> level label")
    retry_of = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="retries")
    spec: Any = models.JSONField(help_text="resolved and immutable; see agents/protocol.py")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    outcome = models.CharField(max_length=13, choices=Outcome, blank=True)
    error: Any = models.JSONField(null=True, blank=True, help_text="a Failure of agents/protocol.py")
    agent_state = models.CharField(max_length=20, blank=True)
    agent_state_at = models.DateTimeField(null=True, blank=True)
    step = models.CharField(max_length=40, blank=True)
    facts = models.ForeignKey("hosts.Facts", null=True, on_delete=models.PROTECT, related_name="+")
    epoch = models.PositiveBigIntegerField(null=True)
    next_tick_at = models.DateTimeField(null=True, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    claim = models.UUIDField(null=True, blank=True)
    events_offset = models.PositiveBigIntegerField(default=0, help_text="bytes of events.ndjson that are committed")
    events_damaged = models.PositiveIntegerField(default=0, help_text="lines that were not whole on the host's disk")
    last_seq = models.PositiveIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    manifest: Any = models.JSONField(null=True, blank=True)
    proof: Any = models.JSONField(null=True, blank=True, help_text='{"checked", "ok", "lines": [what was found]}')
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ingested_at = models.DateTimeField(null=True, blank=True, help_text="when its results were read")

    objects = RunQuerySet.as_manager()

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
            models.Index(fields=["next_tick_at"], condition=~models.Q(state="ended"), name="run_due"),
            models.Index(fields=["ended_at"], condition=models.Q(ingested_at=None), name="run_to_ingest"),
            # What goes on or waits is a handful, whatever the history.
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
        ]

    def __str__(self) -> str:
        return f"{self.campaign} #{self.position + 1}"

    @property
    def label(self) -> str:
        """The levels of this run in a line, such as "2 cpus", in the order of the design: that of jsonb is its own."""
        names = [factor["name"] for factor in self.campaign.factors]
        return ", ".join(self.cell[name] for name in names if name in self.cell)

    @property
    def doing(self) -> str:
        """What its agent does now, in words."""
        if self.agent_state == "REBOOTING" and self.agent_state_at:
            return f"restarting the host since {self.agent_state_at:%H:%M}"
        return f"{self.agent_state.lower().replace('_', ' ')} {self.step}".strip()

    def claim_tick(self, seconds: float) -> bool:
        """Claim this run for one tick. False when somebody else has it or it is not due, as after a redelivery."""
        now, token = timezone.now(), uuid.uuid4()
        until = now + timedelta(seconds=seconds)
        claimed = Run.objects.due(now).filter(pk=self.pk).update(claim=token, claimed_until=until)
        if claimed:
            self.refresh_from_db(from_queryset=Run.objects.select_related("campaign", "host__identity"))
        return bool(claimed)

    def mine(self) -> RunQuerySet:
        """This row, if the claim that we took is still ours: every write of a tick goes through it."""
        return Run.objects.filter(pk=self.pk, claim=self.claim)


class RunPart(models.Model):
    """What another machine does for a run, as a job of its own there: a client's host has the run itself."""

    class Role(models.TextChoices):
        SERVER = "server", "server"
        STANDBY = "standby", "standby"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False, help_text="of the job on its host")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="parts")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="run_parts")
    role = models.CharField(max_length=7, choices=Role)
    position = models.PositiveIntegerField(help_text="in the order of their starts, from 0")
    spec: Any = models.JSONField(help_text="resolved and immutable; see agents/protocol.py")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=Run.State, default=Run.State.QUEUED)
    outcome = models.CharField(max_length=13, choices=Run.Outcome, blank=True)
    error: Any = models.JSONField(null=True, blank=True, help_text="a Failure of agents/protocol.py")
    agent_state = models.CharField(max_length=20, blank=True)
    facts = models.ForeignKey("hosts.Facts", null=True, on_delete=models.PROTECT, related_name="+")
    epoch = models.PositiveBigIntegerField(null=True)
    events_offset = models.PositiveBigIntegerField(default=0, help_text="bytes of events.ndjson that are committed")
    events_damaged = models.PositiveIntegerField(default=0, help_text="lines that were not whole on the host's disk")
    last_seq = models.PositiveIntegerField(default=0)
    manifest: Any = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["run", "position"]
        constraints = [models.UniqueConstraint(fields=["run", "position"], name="part_position_once_per_run")]

    def __str__(self) -> str:
        return f"{self.role} of {self.run} on {self.host}"

    @property
    def name(self) -> str:
        """Which of the run's parts it is: "server", "standby1"."""
        return str(self.spec["target"].get("name", self.role))


class RunEvent(models.Model):
    """One line of the agent's event log; (run, seq) is unique, so that a line read twice is stored once."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=12)
    data: Any = models.JSONField()

    class Meta:
        ordering = ["run", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="event_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq} {self.kind}"


class PartEvent(models.Model):
    """The same of a part: in a table of its own, so that nobody takes what another host told for the run's."""

    part = models.ForeignKey(RunPart, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=12)
    data: Any = models.JSONField()

    class Meta:
        ordering = ["part", "seq"]
        constraints = [models.UniqueConstraint(fields=["part", "seq"], name="part_event_once")]

    def __str__(self) -> str:
        return f"{self.part_id} {self.seq} {self.kind}"


class Artefact(models.Model):
    """Raw output of a tool, as it was printed: what is parsed from it can be parsed again."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artefacts")
    path = models.CharField(max_length=300, help_text="relative to the job's directory: out/<step>/<name>")
    size = models.PositiveBigIntegerField(help_text="bytes on the host")
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField(null=True, help_text="empty when it was too large to fetch")

    class Meta:
        ordering = ["run", "path"]
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="artefact_once")]

    def __str__(self) -> str:
        return self.path


class PartArtefact(models.Model):
    """What a part's tools printed, such as the log of its PostgreSQL."""

    part = models.ForeignKey(RunPart, on_delete=models.CASCADE, related_name="artefacts")
    path = models.CharField(max_length=300, help_text="relative to the job's directory: out/<step>/<name>")
    size = models.PositiveBigIntegerField(help_text="bytes on the host")
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField(null=True, help_text="empty when it was too large to fetch")

    class Meta:
        ordering = ["part", "path"]
        constraints = [models.UniqueConstraint(fields=["part", "path"], name="part_artefact_once")]

    def __str__(self) -> str:
        return self.path


class DataCopy(models.Model):
    """A data set as it lies in a private cluster of a host, as its runs have told."""

    class State(models.TextChoices):
        PREPARING = "preparing"
        PRISTINE = "pristine"
        DIRTY = "dirty"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="data_copies")
    home = models.CharField(max_length=500, help_text="the private cluster's directory")
    fingerprint = models.CharField(max_length=64, help_text="of what makes it, and of PostgreSQL's major version")
    dataset = models.ForeignKey(DataSet, null=True, on_delete=models.SET_NULL, related_name="copies")
    recipe: Any = models.JSONField(help_text='{"kind", "options"}')
    major = models.PositiveIntegerField()
    database = models.CharField(max_length=63)
    target: Any = models.JSONField(help_text="of the run that told last")
    initdb: Any = models.JSONField(default=dict, help_text="the setting that its cluster was made with")
    state = models.CharField(max_length=9, choices=State)
    size = models.PositiveBigIntegerField(default=0, help_text="bytes")
    relations: Any = models.JSONField(default=dict, help_text="relation -> {bytes, rows}")
    seconds: Any = models.JSONField(default=list, help_text="[[step of its making, seconds]]")
    made_by = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["host", "home", "fingerprint"]
        verbose_name_plural = "data copies"
        constraints = [models.UniqueConstraint(fields=["host", "home", "fingerprint"], name="data_copy_once")]

    def __str__(self) -> str:
        return f"{self.database} on {self.host}"

    @property
    def brief(self) -> str:
        """How it was made, in short."""
        return data.brief(self.recipe["kind"], self.recipe["options"])

    @property
    def took(self) -> float:
        """Seconds that its steps took in all."""
        return float(sum(seconds for _, seconds in self.seconds))


class DataUse(models.Model):
    """What a run had of a data set: the pristine one, a copy of it, or one made anew; and what that took."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="data_use")
    copy = models.ForeignKey(DataCopy, null=True, on_delete=models.SET_NULL, related_name="uses")
    name = models.CharField(max_length=80)
    means = models.CharField(max_length=8, help_text="pristine, copy, reinit, keep, prepared or removed")
    reason = models.TextField()
    seconds = models.FloatField(default=0)
    wrote = models.BooleanField(null=True, help_text="whether the run changed it; empty where nobody looked")

    class Meta:
        ordering = ["run"]

    def __str__(self) -> str:
        return f"{self.name}: {self.means}"

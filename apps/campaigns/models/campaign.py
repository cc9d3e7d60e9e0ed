"""A campaign: what is compared, on which hosts, in which order, and when it stops."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from django.db import models
from django.db.models import F, Func

from apps.accounts.models import Teams, User, Walled
from apps.campaigns.design import fixed_rate
from apps.campaigns.design.request import CampaignDesign, all_sources
from apps.campaigns.design.steps import Step
from apps.campaigns.models.workloads import DataSet, Workload
from apps.hosts.models import Host
from apps.tuning.models import Revision


class _NamesHostOf(Func):
    """SQL: whether a campaign's roles name a host of these teams as the client or as a standby."""

    template = (
        "EXISTS (SELECT 1 FROM hosts_host AS of_role WHERE of_role.team_id IN (%(teams)s)"
        " AND (%(expressions)s -> 'client' = to_jsonb(of_role.id)"
        " OR %(expressions)s -> 'standbys' @> to_jsonb(of_role.id)))"
    )
    output_field = models.BooleanField()

    def __init__(self, roles: F, teams: Teams) -> None:
        super().__init__(roles, teams=", ".join(str(team) for team in sorted(teams)))


class Campaign(Walled):
    """A question, the factors that may answer it, and the runs that were planned from them."""

    behind = ("host", "further_hosts", "profile", "workload", "dataset")
    listed = True

    class Kind(models.TextChoices):
        COMPARISON = "comparison", "comparison: levels of factors, measured"
        PREPARATION = "preparation", "preparation: a data set is created or removed"
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
        LIST = "list", "the listed combinations"
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
    recipe_version = models.PositiveIntegerField(
        null=True, blank=True, help_text="question of the recipe when the campaign was created"
    )
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="campaigns")
    profile = models.ForeignKey(Revision, null=True, blank=True, on_delete=models.PROTECT, related_name="campaigns")
    workload = models.ForeignKey(
        Workload, null=True, blank=True, on_delete=models.PROTECT, related_name="campaigns", help_text="of a comparison"
    )
    dataset = models.ForeignKey(DataSet, null=True, blank=True, on_delete=models.PROTECT, related_name="campaigns")
    target: Any = models.JSONField(
        default=dict, blank=True, help_text='{} (a private cluster), {"bin_dir"}, or {"data_dir"} of an existing one'
    )
    placement = models.CharField(max_length=6, choices=Placement, default=CampaignDesign.placement)
    further_hosts = models.ManyToManyField(
        Host, blank=True, related_name="further_campaigns", help_text="other hosts: each as a block, or identical"
    )
    roles: Any = models.JSONField(
        default=dict, blank=True, help_text='{"client": host id, "standbys": [host ids]}; the server is on the host'
    )
    priority = models.SmallIntegerField(
        default=CampaignDesign.priority, help_text="priority in the queues of its hosts: the highest starts first"
    )
    design = models.CharField(max_length=13, choices=Design, default=CampaignDesign.design)
    factors: Any = models.JSONField(
        help_text='[{"name", "order", "levels": [{"label", "set": {path: value}, "when": {factor: [labels]}}]}]'
    )
    cells: Any = models.JSONField(default=list, blank=True, help_text="of a list: [{factor: label}]")
    sample = models.PositiveIntegerField(null=True, blank=True, help_text="combinations of a random sample")
    repetitions = models.PositiveIntegerField(default=CampaignDesign.repetitions)
    order = models.CharField(max_length=15, choices=Order, default=CampaignDesign.order)
    seed = models.PositiveBigIntegerField()
    reboot = models.CharField(
        max_length=15, choices=Reboot, default=CampaignDesign.reboot, help_text="restart the host"
    )
    nuisance: Any = models.JSONField(
        default=dict, blank=True, help_text='{"cool_down_s", "checkpoint", "drop_caches", "warm_up": {...}}'
    )
    stop: Any = models.JSONField(
        default=dict, blank=True, help_text='{} (all repetitions), or {"until", "between": [cell, cell], "width"}'
    )
    budget_h = models.FloatField(null=True, blank=True, help_text="hours after which no further run starts")
    max_failures = models.PositiveIntegerField(null=True, blank=True, help_text="failed runs that pause it")
    metric = models.CharField(
        max_length=80,
        default=CampaignDesign.metric,
        blank=True,
        help_text="step.name if several are measured; empty if none is",
    )
    delta = models.FloatField(
        default=CampaignDesign.delta, help_text="the minimum effect of interest as a fraction: 0.02 is 2 %"
    )
    interval_s = models.FloatField(
        default=CampaignDesign.interval_s, help_text="seconds between two samples of each collector"
    )
    sources: Any = models.JSONField(default=all_sources, blank=True, help_text="names of the collectors")
    state = models.CharField(max_length=10, choices=State, default=State.DRAFT)
    state_reason = models.TextField(blank=True, help_text="why it paused, or ended before its last run")
    open_blocks = models.PositiveIntegerField(
        null=True, blank=True, help_text="blocks that may start: the next one waits for an interim analysis; empty: all"
    )
    forgiven_failures = models.PositiveIntegerField(default=0, help_text="number of failed runs when it was resumed")
    extensions: Any = models.JSONField(
        default=list, blank=True, help_text='[{"at", "by", "repetitions", "levels", "seen": ok runs before it}]'
    )
    cloned_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="clones")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_by = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="the user whose permissions its runs have",
    )
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True, help_text="since when lists leave it out")

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

    @classmethod
    def hidden_beside(cls, teams: Teams) -> Iterator[Any]:
        yield _NamesHostOf(F("roles"), teams)

    @property
    def owners(self) -> Collection[int | None]:
        """The teams of its hosts, because a campaign has no team itself. No query for a loaded campaign on one host.
        Further hosts are only included once it is saved."""
        further: list[Host] = []
        if self.placement != self.Placement.ONE and not self._state.adding:
            models.prefetch_related_objects([self], "further_hosts")
            further = list(self.further_hosts.all())
        return {self.host.team_id, *(host.team_id for host in further), *self._owners_of_roles}

    @cached_property
    def _owners_of_roles(self) -> Collection[int | None]:
        """The teams of hosts that are a client or a standby. The plan refuses names of unknown hosts."""
        if not isinstance(self.roles, dict) or not self.roles:
            return ()
        standbys = self.roles.get("standbys")
        named = [self.roles.get("client"), *(standbys if isinstance(standbys, list) else [])]
        keys = [each for each in named if isinstance(each, int) and not isinstance(each, bool)]
        return set(Host.objects.filter(pk__in=keys).values_list("team_id", flat=True))

    @property
    def steps(self) -> list[Step]:
        """The steps of its workload; empty without a workload."""
        return list(self.workload.steps) if self.workload else []

    @property
    def compared(self) -> str:
        """The figure by which its levels are compared: its metric, or at a fixed rate a latency."""
        return self.compared_instead_of(self.metric)

    def compared_instead_of(self, figure: str) -> str:
        """The figure by which its levels are compared if users choose this one."""
        return fixed_rate.compared(self.steps, self.factors, figure)

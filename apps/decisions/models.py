"""Decisions, their frozen evidence, their scope, comments, and history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.text import capfirst

from apps.accounts.models import Credential, Owned, Teams, User, Walled, WalledQuerySet
from apps.accounts.models.walls import only_hidden
from apps.campaigns.models import Campaign
from apps.decisions.evidence.conditions import Range
from apps.hosts.models import LABEL, Host


class DecisionQuerySet(WalledQuerySet["Decision"]):
    def about(self, host: Host) -> DecisionQuerySet:
        """Return the decisions with this host in their scope: listed, or by one of its labels."""
        listed = Decision.hosts.through.objects.filter(host=host).values("decision")
        return self.filter(Q(pk__in=listed) | Q(labels__overlap=host.labels))

    def alive(self) -> DecisionQuerySet:
        """Return the decisions that the team follows, including expired ones until they are reviewed."""
        return self.filter(status__in=(Decision.Status.ACCEPTED, Decision.Status.EXPIRED))


class Decision(Owned):
    behind = ("team", "campaign")
    # What users write, in the order in which forms and pages show it: texts, dates or numbers. Form, API and pages read
    # it here.
    WRITTEN = ("question", "options", "decision", "reasons", "review_on")

    class Status(models.TextChoices):
        PROPOSED = "proposed"
        ACCEPTED = "accepted"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"
        SUPERSEDED = "superseded"
        EXPIRED = "expired", "expired: needs a review"
        CONTRADICTED = "contradicted", "contradicted by its confirming campaign"

    title = models.CharField(max_length=160)
    question = models.TextField(help_text="default: that of the campaign")
    options = models.TextField(
        "options considered", blank=True, help_text="the alternatives, and why they were not chosen"
    )
    decision = models.TextField(help_text="what changes from now on, and where")
    reasons = models.TextField(blank=True, help_text="arguments for and against")
    status = models.CharField(max_length=12, choices=Status, default=Status.PROPOSED)
    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="decisions")
    level = models.CharField(max_length=400, blank=True, help_text="the chosen combination of levels")
    settings: Any = models.JSONField(
        default=dict, blank=True, help_text="settings of that combination: setting name -> value"
    )
    names = ArrayField(
        models.CharField(max_length=200),
        default=list,
        blank=True,
        help_text="paths of these settings, and their groups",
    )
    hosts = models.ManyToManyField(Host, related_name="decisions", blank=True, help_text="the scope")
    labels = ArrayField(
        models.CharField(max_length=63, validators=[LABEL]),
        default=list,
        blank=True,
        help_text="the scope: every host with one of these labels",
    )
    postgresql_from = models.PositiveSmallIntegerField(null=True, blank=True, help_text="the first major version")
    postgresql_to = models.PositiveSmallIntegerField(null=True, blank=True, help_text="the last major version")
    kernel_from = models.CharField(max_length=20, blank=True, help_text="the first version of Linux, such as 6.1")
    kernel_to = models.CharField(max_length=20, blank=True, help_text="the last version of Linux")
    evidence: Any = models.JSONField(help_text="the results of the campaign when the decision was written")
    evidence_digest = models.CharField(max_length=64)
    review_on = models.DateField(
        null=True, blank=True, help_text="the decision expires on this date and appears on the home page"
    )
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    accepted_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = DecisionQuerySet.as_manager()  # type: ignore[misc]  # instead of that of Walled

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            GinIndex(fields=["labels"], name="decision_by_label"),
            GinIndex(fields=["names"], name="decision_by_setting"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def written(self) -> list[tuple[str, str, str]]:
        """Name, label and text of each field of WRITTEN that is not empty."""
        labels = {field.name: capfirst(str(field.verbose_name)) for field in self._meta.fields}
        values = [(name, getattr(self, name)) for name in self.WRITTEN]
        return [(name, labels[name], str(value)) for name, value in values if value not in ("", None)]

    @property
    def scope(self) -> models.QuerySet[Host]:
        """The hosts in scope now: those listed, and those with one of its labels."""
        listed = self.hosts.through.objects.filter(decision=self.pk).values("host")
        return Host.objects.filter(Q(pk__in=listed) | Q(labels__overlap=self.labels)).order_by("name")

    @property
    def postgresql(self) -> Range:
        return Range(*(str(each or "") for each in (self.postgresql_from, self.postgresql_to)))

    @property
    def kernel(self) -> Range:
        return Range(self.kernel_from, self.kernel_to)


class Standing(Walled):
    """A decision on one host of its scope: the conditions under which it holds there, and why it may no longer hold."""

    behind = ("decision", "host")

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="standings")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="standings")
    conditions: Any = models.JSONField(help_text="conditions of the decision; see conditions.py")
    compared_facts = models.PositiveIntegerField(
        db_column="looked", default=0, help_text="number of the last facts of the host that were compared"
    )
    reasons: Any = models.JSONField(default=list, blank=True, help_text='[{"fact", "before", "after", "words"}]')
    stale_since = models.DateTimeField(null=True, blank=True)
    campaign = models.ForeignKey(
        Campaign,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="the confirming campaign",
    )
    drift_rows: Any = models.JSONField(
        db_column="found", default=list, blank=True, help_text="rows of drift.py, from the last query of the host"
    )
    asked_at = models.DateTimeField(null=True, blank=True, help_text="when the host was last queried")

    class Meta:
        ordering = ["decision", "host__name"]
        verbose_name_plural = "standings of decisions"
        constraints = [models.UniqueConstraint(fields=["decision", "host"], name="standing_once")]
        indexes = [models.Index(fields=["decision"], condition=Q(stale_since__isnull=False), name="standing_stale")]

    def __str__(self) -> str:
        return f"{self.decision} on {self.host}"

    @property
    def reasons_text(self) -> str:
        """Why it may no longer hold, as sentences."""
        return " ".join(str(reason["words"]) for reason in self.reasons)


class Event(Walled):
    """A change of a decision, with user and time. The audit log has the same; this is shown to users."""

    behind = ("decision", "host", "campaign")

    class Kind(models.TextChoices):
        ACCEPTED = "accepted", "was accepted"
        REJECTED = "rejected", "was rejected"
        WITHDRAWN = "withdrawn", "was withdrawn"
        SUPERSEDED = "superseded", "was superseded"
        EXPIRED = "expired", "expired"
        RENEWED = "renewed", "was renewed"
        STALE = "stale", "went stale"
        FRESH = "fresh", "holds again"
        CONFIRMING = "confirming", "confirmation is running"
        CONFIRMED = "confirmed", "was confirmed"
        CONTRADICTED = "contradicted", "was contradicted"
        UNSETTLED = "unsettled", "was not resolved"

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=12, choices=Kind)
    by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+", help_text="null: the server itself"
    )
    host = models.ForeignKey(Host, null=True, on_delete=models.SET_NULL, related_name="+")
    campaign = models.ForeignKey(Campaign, null=True, on_delete=models.SET_NULL, related_name="+")
    text = models.TextField(db_column="words", blank=True)

    class Meta:
        ordering = ["at", "pk"]
        indexes = [models.Index(fields=["-at", "-id"], name="event_newest")]

    def __str__(self) -> str:
        return f"{self.decision} {self.get_kind_display()}"

    @classmethod
    def hidden_beside(cls, teams: Teams) -> Iterator[Any]:
        """Hide the title of the new decision in the event of the superseded one."""
        new = only_hidden(Decision, teams).filter(supersedes=OuterRef("decision"))
        yield Q(Exists(new), kind=cls.Kind.SUPERSEDED)


class Review(Walled):
    """The comparison of a newer campaign with a decision's evidence."""

    behind = ("decision", "campaign")

    class Verdict(models.TextChoices):
        CONFIRMS = "confirms"
        CONTRADICTS = "contradicts"
        OPEN = "open", "is inconclusive"

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="reviews")
    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="reviews")
    verdict = models.CharField(max_length=11, choices=Verdict)
    text = models.TextField(db_column="words", help_text="the result, in sentences")
    reviewed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["reviewed_at", "pk"]
        constraints = [models.UniqueConstraint(fields=["decision", "campaign"], name="review_once")]

    def __str__(self) -> str:
        return f"{self.campaign} {self.verdict} {self.decision}"


class Comment(Walled):
    """Dissent and additions; the text of a decision does not change."""

    behind = ("decision",)

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    dissent = models.BooleanField(default=False, help_text="its author disagrees")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at"]

    def __str__(self) -> str:
        return f"{self.author}: {self.text[:60]}"


class FeedToken(Credential):
    """The secret with which a feed reader sees a user's timeline, and nothing else; stored as a hash."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="feed")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"feed of {self.user}"

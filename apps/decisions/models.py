"""Decisions, the evidence that they froze, and what was said about them."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.hosts.models import Host


class Decision(models.Model):
    class Status(models.TextChoices):
        PROPOSED = "proposed"
        ACCEPTED = "accepted"
        REJECTED = "rejected"
        SUPERSEDED = "superseded"

    title = models.CharField(max_length=160)
    question = models.TextField()
    decision = models.TextField()
    reasons = models.TextField(blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.PROPOSED)
    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="decisions")
    hosts = models.ManyToManyField(Host, related_name="decisions", help_text="the scope")
    evidence: Any = models.JSONField(help_text="the campaign's results as they were when this was written")
    evidence_digest = models.CharField(max_length=64)
    review_on = models.DateField(null=True, blank=True, help_text="when to look again")
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.title


class Review(models.Model):
    """A newer campaign beside a decision's evidence."""

    class Verdict(models.TextChoices):
        CONFIRMS = "confirms"
        CONTRADICTS = "contradicts"
        OPEN = "open", "says nothing certain"

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="reviews")
    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="reviews")
    verdict = models.CharField(max_length=11, choices=Verdict)
    words = models.TextField(help_text="what it says, in sentences")
    reviewed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["reviewed_at", "pk"]
        constraints = [models.UniqueConstraint(fields=["decision", "campaign"], name="review_once")]

    def __str__(self) -> str:
        return f"{self.campaign} {self.verdict} {self.decision}"


class Comment(models.Model):
    """Dissent and additions; a decision's text itself does not change."""

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at"]

    def __str__(self) -> str:
        return f"{self.author}: {self.text[:60]}"

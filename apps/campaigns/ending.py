"""Telling people how a campaign ended."""

from __future__ import annotations

from collections import Counter

from django.urls import reverse

from apps.accounts.notify import notify
from apps.campaigns.models import Campaign, Run


def tell(campaign: Campaign, *, reason: str = "") -> None:
    """A campaign has ended, in the caller's transaction: failed where a `reason` says so, or where no run was ok."""
    outcomes = Counter(campaign.runs.order_by().values_list("outcome", flat=True))
    failed = bool(reason) or (bool(outcomes) and not outcomes[Run.Outcome.OK])
    kind, ended = ("campaign.failed", "failed") if failed else ("campaign.finished", "has finished")
    counted = [f"{count} {Run.Outcome(outcome).label}" for outcome, count in sorted(outcomes.items()) if outcome]
    text = f"{campaign.question}\n\nRuns: {', '.join(counted) or 'none'}."
    payload = {
        "text": f"{reason}\n\n{text}" if reason else text,
        "path": reverse("campaign_detail", args=[campaign.pk]),
        "campaign": str(campaign.pk),
        "host": campaign.host.name,
        "runs": dict(outcomes),
        "reason": reason,
    }
    notify(kind, f"{campaign} {ended}", payload)

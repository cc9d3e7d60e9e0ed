"""Telling people that a campaign has ended, or that it paused because too many of its runs failed."""

from __future__ import annotations

from collections import Counter

from django.urls import reverse

from apps.accounts.notices.notify import notify
from apps.campaigns.models import Campaign, Run


def tell(campaign: Campaign) -> None:
    """In the caller's transaction. Failed is one that paused by itself, and one in which no run was ok."""
    outcomes = Counter(campaign.runs.order_by().exclude(outcome="").values_list("outcome", flat=True))
    paused, reason = campaign.state == Campaign.State.PAUSED, campaign.state_reason
    failed = paused or (bool(outcomes) and not outcomes[Run.Outcome.OK])
    kind = "campaign.failed" if failed else "campaign.finished"
    became = "has paused" if paused else "failed" if failed else "has finished"
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
    notify(kind, f"{campaign} {became}", payload)

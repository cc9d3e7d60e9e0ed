"""The end of a campaign in the tables, and the notification that it ended or paused after too many failures."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from django.urls import reverse
from django.utils import timezone

from apps.accounts.notices.notify import notify
from apps.campaigns.models import Campaign, Run


def close_campaign(campaign_id: UUID) -> None:
    """Finish a campaign whose last run has ended; a cancelled one gets its end time."""
    if Run.objects.filter(campaign_id=campaign_id).exclude(state=Run.State.ENDED).exists():
        return
    campaign = Campaign.objects.filter(pk=campaign_id, ended_at=None)
    unfinished = [Campaign.State.RUNNING, Campaign.State.PAUSED]
    campaign.filter(state__in=unfinished).update(state=Campaign.State.FINISHED)
    if campaign.exclude(state=Campaign.State.DRAFT).update(ended_at=timezone.now()):
        ended = Campaign.objects.get(pk=campaign_id)
        if ended.state == Campaign.State.FINISHED:
            notify_end(ended)


def notify_end(campaign: Campaign) -> None:
    """In the caller's transaction. A campaign has failed if it paused by itself, or if no run was ok."""
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
    notify(kind, f"{campaign} {became}", payload, about=[campaign])

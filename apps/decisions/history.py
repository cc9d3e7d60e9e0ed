"""Lines of a decision's history, written in the transaction of the act."""

from __future__ import annotations

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.decisions.models import Decision, Event
from apps.hosts.models import Host


def note(
    decision: Decision,
    kind: Event.Kind,
    text: str = "",
    *,
    by: User | None = None,
    host: Host | None = None,
    campaign: Campaign | None = None,
) -> None:
    """`by` None is the system itself."""
    Event.objects.create(decision=decision, kind=kind, words=text, by=by, host=host, campaign=campaign)

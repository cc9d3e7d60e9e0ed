"""Write the history of a decision, in the transaction of the action."""

from __future__ import annotations

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.decisions.models import Decision, Event
from apps.hosts.models import Host


def add_event(
    decision: Decision,
    kind: Event.Kind,
    text: str = "",
    *,
    by: User | None = None,
    host: Host | None = None,
    campaign: Campaign | None = None,
) -> None:
    """Add an event. `by` is None for the system."""
    Event.objects.create(decision=decision, kind=kind, text=text, by=by, host=host, campaign=campaign)

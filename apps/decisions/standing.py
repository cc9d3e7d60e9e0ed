"""SELECT only: under which conditions a campaign measured, and under which a host is now."""

from __future__ import annotations

from apps.campaigns import targets
from apps.campaigns.models import Campaign
from apps.decisions.conditions import Conditions, conditions
from apps.hosts.models import Facts, Host


def under(facts: Facts, campaign: Campaign) -> Conditions:
    """Those of a version of a host's facts, with the PostgreSQL that this campaign would take there."""
    return conditions(facts.data, targets.version(facts.data, campaign.target))


def measured(campaign: Campaign) -> dict[Host, Conditions]:
    """Host -> what its last ok run there was measured under. Two queries; nothing of what was imported."""
    runs = campaign.runs.filter(outcome="ok").order_by("host_id", "-position").distinct("host")
    found = runs.select_related("host", "facts").defer("spec", "manifest")
    return {run.host: under(run.facts, campaign) for run in found if run.facts}

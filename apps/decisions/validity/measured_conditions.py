"""SELECT only: under which conditions a campaign measured, and under which a host is now."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.campaigns.design import targets
from apps.campaigns.models import Campaign, Run
from apps.decisions.evidence.conditions import Conditions, conditions
from apps.hosts.models import Facts, Host


def under(facts: Facts, campaign: Campaign) -> Conditions:
    """Those of a version of a host's facts, with the PostgreSQL that this campaign would take there."""
    return conditions(facts.data, targets.version(facts.data, campaign.target))


def last_runs(campaign: Campaign) -> QuerySet[Run]:
    """The last ok run on each of its hosts, with host and facts."""
    runs = campaign.runs.filter(outcome=Run.Outcome.OK).order_by("host_id", "-position").distinct("host_id")
    return runs.select_related("host", "facts").defer("spec", "manifest")


def measured(campaign: Campaign) -> dict[Host, Conditions]:
    """Host -> what its last ok run there was measured under. One query; nothing of what was imported."""
    return {run.host: under(run.facts, campaign) for run in last_runs(campaign) if run.facts}

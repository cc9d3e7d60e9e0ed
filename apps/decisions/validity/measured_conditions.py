"""The conditions under which a campaign measured, and those of a host now. Only reads (SELECT)."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.campaigns.design import targets
from apps.campaigns.models import Campaign, Run
from apps.decisions.evidence.conditions import Conditions, conditions
from apps.hosts.models import Facts, Host


def under(facts: Facts, campaign: Campaign) -> Conditions:
    """Return the conditions of a version of facts, with the PostgreSQL that this campaign would use."""
    return conditions(facts.data, targets.version(facts.data, campaign.target))


def last_runs(campaign: Campaign) -> QuerySet[Run]:
    """Return the last ok run on each of its hosts, with host and facts."""
    runs = campaign.runs.filter(outcome=Run.Outcome.OK).order_by("host_id", "-position").distinct("host_id")
    return runs.select_related("host", "facts").defer("spec", "manifest")


def measured(campaign: Campaign) -> dict[Host, Conditions]:
    """Return host -> conditions of its last ok run. One query; imported runs have none."""
    return {run.host: under(run.facts, campaign) for run in last_runs(campaign) if run.facts}

"""Campaigns that confirm a stale decision: offered, planned, and evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.campaigns import lifecycle
from apps.campaigns import services as campaigns
from apps.campaigns.design.request import Arrangement
from apps.campaigns.models import Campaign
from apps.campaigns.queries import median_s
from apps.decisions.evidence import conditions, repetitions_needed
from apps.decisions.history import add_event
from apps.decisions.models import Decision, Event, Review, Standing
from apps.decisions.validity import measured_conditions
from apps.decisions.validity.newer_results import review_verdict
from apps.hosts.models import Host
from common.errors import PlanError

Verdict = Review.Verdict
OVER = (Campaign.State.FINISHED, Campaign.State.CANCELLED)
# Parts of a campaign that may have grown since its results were frozen.
FROZEN = (*Arrangement.names(), "delta")


@dataclass(frozen=True)
class Offer:
    """The design of the evidence on the hosts where the decision is stale. `seconds`: estimated from its runs."""

    hosts: list[Host]
    repetitions: int
    runs: int
    seconds: float | None


def stale_standings(decision: Decision) -> list[Standing]:
    """Return where the decision may no longer hold."""
    rows = decision.standings.filter(stale_since__isnull=False, host__in=decision.scope)
    return list(rows.select_related("host", "campaign").order_by("host__name"))


def stale_on(host: Host) -> list[Standing]:
    """Return the decisions that are followed and may no longer hold on this host."""
    alive = Decision.objects.alive().about(host).values("pk")
    rows = Standing.objects.filter(host=host, stale_since__isnull=False, decision__in=alive)
    return list(rows.select_related("decision", "campaign").defer("decision__evidence"))


def under_way(decision: Decision) -> Campaign | None:
    """Return its confirming campaign that has not ended."""
    rows = decision.standings.exclude(campaign=None).exclude(campaign__state__in=OVER).select_related("campaign")
    return next((row.campaign for row in rows), None)


def offer(decision: Decision, standings: list[Standing] | None = None) -> Offer | None:
    """Return the offer; None if nothing is stale, or if there is a confirming campaign already."""
    waiting = stale_standings(decision) if standings is None else standings
    hosts = [each.host for each in waiting if each.campaign is None or each.campaign.state in OVER]
    if not hosts or decision.status not in (Decision.Status.ACCEPTED, Decision.Status.EXPIRED):
        return None
    repetitions = repetitions_needed.repetitions(decision.evidence, decision.level)
    runs = repetitions * len(decision.evidence["table"]["levels"]) * len(hosts)
    took = median_s(decision.campaign.runs.all())
    return Offer(hosts, repetitions, runs, runs * took if took else None)


def confirm_decision(decision: Decision, *, by: User, start: bool = False) -> Campaign:
    """Create a draft of the confirming campaign, and start it if requested. PlanError if there is nothing to
    confirm, or if a host does not allow it."""
    campaign = _plan(decision, by)
    if start:
        campaigns.start_campaign(campaign, by=by)
    return campaign


@transaction.atomic
def _plan(decision: Decision, by: User) -> Campaign:
    require(by, Role.OPERATOR, "confirm decision", on=decision)
    Decision.objects.select_for_update().get(pk=decision.pk)  # two at the same time would plan two
    proposed = offer(decision)
    if proposed is None:
        hint = "only if a host in the scope changed and no confirming campaign is active"
        raise PlanError("decision", f"{decision} is {decision.status}, so it cannot be confirmed", hint=hint)
    campaign = lifecycle.clone_campaign(decision.campaign, by=by, **_changes(decision, proposed))
    decision.standings.filter(host__in=proposed.hosts).update(campaign=campaign)
    add_event(decision, Event.Kind.CONFIRMING, f"{proposed.runs} runs planned", by=by, campaign=campaign)
    about = {"id": decision.pk, "campaign": str(campaign.pk), "hosts": [host.name for host in proposed.hosts]}
    audit(by, "decision.confirming", decision, after=about)
    return campaign


def _changes(decision: Decision, proposed: Offer) -> dict[str, Any]:
    """Return the differences from the original campaign: hosts, repetitions and order. It never stops early, because
    the effect needs this number of runs."""
    frozen = decision.evidence["campaign"]
    first, *others = proposed.hosts
    # Everybody may see the campaign, if its hosts belong to no private team.
    title = f"decision {decision.pk}" if decision.team and decision.team.private else decision.title
    where = {"host": first, "further_hosts": others, "placement": Campaign.Placement.EACH if others else "one"}
    return {
        **{name: frozen[name] for name in FROZEN if name in frozen},
        **where,
        "name": f"Confirm: {title}"[:120],
        "question": f"Does “{title}” still hold on {', '.join(host.name for host in proposed.hosts)}?",
        "repetitions": proposed.repetitions,
        "seed": None,
        "stop": {},
        "budget_h": None,
    }


def settle(review: Review) -> None:
    """Apply the result of a reviewed campaign where the decision is stale; in the caller's transaction.

    Any campaign under the new conditions can confirm the decision; only the confirming campaign can contradict it."""
    decision, campaign = review.decision, review.campaign
    measured = {run.host_id: run for run in measured_conditions.last_runs(campaign)}
    several = len(measured) > 1
    for standing in stale_standings(decision):
        run = measured.get(standing.host_id)
        if run is None or run.facts is None:
            continue
        now = measured_conditions.under(run.facts, campaign)
        if conditions.stale_reasons(conditions.read(standing.conditions), now, decision.kernel, decision.postgresql):
            verdict, reason = (
                review_verdict(decision, campaign, standing.host_id) if several else (review.verdict, review.text)
            )
            new = {"conditions": now.as_dict(), "compared_facts": run.facts.number}
            _settle(standing, campaign, verdict, reason, new)


def _settle(each: Standing, campaign: Campaign, verdict: str, reason: str, now: dict[str, Any]) -> None:
    decision, is_confirming = each.decision, each.campaign_id == campaign.pk
    same = Standing.objects.filter(pk=each.pk)
    if verdict == Verdict.CONFIRMS:
        same.update(**now, reasons=[], stale_since=None, campaign=None)
        _tell(each, campaign, Event.Kind.CONFIRMED, reason)
    elif is_confirming and verdict == Verdict.CONTRADICTS:
        Decision.objects.alive().filter(pk=decision.pk).update(status=Decision.Status.CONTRADICTED)
        same.update(campaign=None)
        _tell(each, campaign, Event.Kind.CONTRADICTED, reason)
    elif is_confirming:
        same.update(campaign=None)
        _tell(each, campaign, Event.Kind.UNSETTLED, reason)


def _tell(each: Standing, campaign: Campaign, kind: Event.Kind, reason: str) -> None:
    """Record the event by the user who started the campaign; the verdict itself is by the system."""
    text = f"{reason} Requested by {campaign.created_by}."
    add_event(each.decision, kind, text, host=each.host, campaign=campaign)
    about = {"id": each.decision_id, "host": each.host.name, "campaign": str(campaign.pk), "words": reason}
    audit(None, f"decision.{kind.value}", each.decision, after=about)

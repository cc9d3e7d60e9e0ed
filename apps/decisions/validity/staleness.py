"""Find decisions that may no longer hold on their hosts. Each version of facts is compared once."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction
from django.db.models import Max
from django.urls import reverse
from django.utils import timezone

from apps.accounts.notices.notify import notify
from apps.accounts.services import audit
from apps.decisions.evidence import conditions
from apps.decisions.evidence.conditions import Conditions
from apps.decisions.history import add_event
from apps.decisions.models import Decision, Event, Standing
from apps.decisions.validity import measured_conditions
from apps.hosts.models import Facts, Host


def begin(decision: Decision) -> None:
    """Store the initial conditions: those that were measured, or those of the host now; in the caller's transaction."""
    measured = measured_conditions.measured(decision.campaign)
    for host in decision.scope:
        newest = host.facts_history.order_by("-number").first()
        if host in measured or newest:
            now = measured[host] if host in measured else measured_conditions.under(newest, decision.campaign)  # type: ignore[arg-type]  # one of the two is there
            Standing.objects.create(decision=decision, host=host, conditions=now.as_dict())


def update_due_standings() -> None:
    """Compare every decision that is followed with the newest facts of its hosts."""
    for decision, host in _due():
        update_standing(decision, host)


def _due() -> Iterator[tuple[Decision, Host]]:
    """Yield decisions and hosts whose newest facts were not compared. Four queries if there are none."""
    rows = Decision.objects.alive().select_related("campaign").prefetch_related("hosts", "standings").defer("evidence")
    known = list(Host.objects.annotate(newest=Max("facts_history__number")).filter(newest__isnull=False))
    for decision in rows:
        listed = {host.pk for host in decision.hosts.all()}
        compared = {standing.host_id: standing.compared_facts for standing in decision.standings.all()}
        for host in known:
            inside = host.pk in listed or set(decision.labels) & set(host.labels)
            if inside and compared.get(host.pk, 0) != host.newest:
                yield decision, host


@transaction.atomic
def update_standing(decision: Decision, host: Host) -> Standing:
    """Compare the present host with the conditions of the decision, and record it if the decision becomes stale."""
    facts = host.facts_history.order_by("-number")[:1].get()
    now = measured_conditions.under(facts, decision.campaign)
    new = {"conditions": basis(decision, now).as_dict()}
    standing, _ = Standing.objects.select_for_update().get_or_create(decision=decision, host=host, defaults=new)
    stood = conditions.read(standing.conditions)
    reasons = conditions.stale_reasons(stood, now, decision.kernel, decision.postgresql)
    was_stale = standing.stale_since is not None
    standing.reasons = [reason.as_dict() for reason in reasons]
    standing.compared_facts = facts.number
    standing.stale_since = (standing.stale_since or timezone.now()) if reasons else None
    standing.save(update_fields=["reasons", "compared_facts", "stale_since"])
    if reasons and not was_stale:
        _went_stale(standing, facts)
    elif was_stale and not reasons:
        add_event(decision, Event.Kind.FRESH, "the changed conditions are back to what they were", host=host)
        audit(None, "decision.fresh", decision, after={"id": decision.pk, "host": host.name, "facts": facts.number})
    return standing


def basis(decision: Decision, now: Conditions) -> Conditions:
    """Return the conditions for a host that joined the scope by a label: those that were measured on any host."""
    return next(iter(measured_conditions.measured(decision.campaign).values()), now)


def _went_stale(standing: Standing, facts: Facts) -> None:
    decision, host = standing.decision, standing.host
    add_event(decision, Event.Kind.STALE, standing.reasons_text, host=host)
    about = {"id": decision.pk, "host": host.name, "facts": facts.number, "reasons": standing.reasons}
    audit(None, "decision.stale", decision, after=about)
    payload = {
        "text": f"{decision.decision}\n\n{host}: {standing.reasons_text}",
        "path": reverse("decision_detail", args=[decision.pk]),
        "decision": decision.pk,
        "host": host.name,
        "reason": standing.reasons_text,
    }
    notify("decision.stale", f"{decision} may no longer hold on {host}", payload, about=[standing])

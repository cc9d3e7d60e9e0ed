"""The drift report: hosts in the scope of a decision that no longer have the decided values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from agents.settings import SETTINGS
from apps.accounts.models import Role, User
from apps.accounts.services import require
from apps.campaigns.design import targets
from apps.decisions.configuration_drift import comparison
from apps.decisions.configuration_drift.comparison import ComparedValue
from apps.decisions.evidence.conditions import conditions
from apps.decisions.models import Decision, Standing
from apps.decisions.validity import staleness
from apps.hosts import contact
from apps.hosts.models import Facts, Host
from common.errors import PlanError


@dataclass(frozen=True)
class HostDrift:
    """The drift of one host. `at`: None if it was never read. `asked`: the host was queried after its facts were
    read."""

    host: Host
    rows: list[ComparedValue]
    at: datetime | None
    asked: bool = False

    @property
    def state(self) -> str:
        return comparison.drift_state(self.rows) if self.at else comparison.UNKNOWN

    @property
    def differing(self) -> list[ComparedValue]:
        return [row for row in self.rows if row.state == comparison.DIFFERS]


@dataclass(frozen=True)
class DecisionDrift:
    decision: Decision
    hosts: list[HostDrift]


def host_drifts(decision: Decision) -> list[HostDrift]:
    """Return every host in scope, those that differ first. Three queries."""
    return _host_drifts(decision, list(decision.scope))


def decision_drifts(host: Host | None = None) -> list[DecisionDrift]:
    """Return the reports of all decisions that are followed and set values; of one host, or of all."""
    rows = Decision.objects.alive().exclude(settings={}).defer("evidence").select_related("campaign")
    decisions = rows.about(host) if host else rows
    return [
        DecisionDrift(decision, _host_drifts(decision, [host] if host else list(decision.scope)))
        for decision in decisions
    ]


def _host_drifts(decision: Decision, hosts: list[Host]) -> list[HostDrift]:
    newest = _newest(hosts)
    standings = {
        standing.host_id: standing for standing in decision.standings.filter(host__in=hosts, asked_at__isnull=False)
    }
    drifts = [_on(decision, host, newest.get(host.pk), standings.get(host.pk)) for host in hosts]
    order = (comparison.DIFFERS, comparison.UNKNOWN, comparison.SAME)
    return sorted(drifts, key=lambda each: (order.index(each.state), each.host.name))


def _newest(hosts: Iterable[Host]) -> dict[int, Facts]:
    rows = Facts.objects.filter(host__in=hosts).order_by("host_id", "-number").distinct("host_id")
    return {row.host_id: row for row in rows}


def _on(decision: Decision, host: Host, facts: Facts | None, standing: Standing | None) -> HostDrift:
    if standing and standing.asked_at and (facts is None or facts.seen_at < standing.asked_at):
        return HostDrift(host, [ComparedValue(**row) for row in standing.drift_rows], standing.asked_at, asked=True)
    if facts is None:
        return HostDrift(host, [], None)
    rows = comparison.rows(facts.data, decision.settings)
    if standing and standing.asked_at:
        rows = comparison.with_earlier(rows, [ComparedValue(**row) for row in standing.drift_rows], standing.asked_at)
    return HostDrift(host, rows, facts.seen_at)


def ask(decision: Decision, host: Host, *, by: User) -> HostDrift:
    """Query the host for its present values. Changes nothing on it."""
    require(by, Role.OPERATOR, "query the host", on=host)
    if not decision.scope.filter(pk=host.pk).exists():
        hint = "one of " + ", ".join(each.name for each in decision.scope)
        raise PlanError("host", f"{host} is not in the scope of {decision}", hint=hint)
    known = {name: each for name, each in decision.settings.items() if name in SETTINGS}
    facts, discovered, reported = contact.discover_all(host, known, lambda facts: _parameters_to_query(decision, facts))
    rows = comparison.rows(facts, decision.settings, discovered, reported)
    now, present = timezone.now(), conditions(facts, targets.version(facts, decision.campaign.target))
    fields = {"drift_rows": [row.as_dict() for row in rows], "asked_at": now}
    new = {**fields, "conditions": staleness.basis(decision, present).as_dict()}
    Standing.objects.update_or_create(decision=decision, host=host, defaults=fields, create_defaults=new)
    return HostDrift(host, rows, now, asked=True)


def _parameters_to_query(decision: Decision, facts: dict[str, Any]) -> dict[str, Any]:
    data_dir = decision.campaign.target.get("data_dir", "")
    return comparison.parameters_to_query(facts, decision.settings, data_dir, decision.postgresql)

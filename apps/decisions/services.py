"""Write decisions with frozen evidence; accept, reject and discuss them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Required, TypedDict, Unpack

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.wire.protocol import digest
from apps.accounts.models import Role, Team, User
from apps.accounts.services import audit, require, save
from apps.campaigns.models import Campaign
from apps.decisions.history import add_event
from apps.decisions.models import Comment, Decision, Event
from apps.decisions.validity import measured_conditions, staleness
from apps.hosts.models import Host
from apps.results import queries
from apps.tuning import rules
from apps.tuning import services as tuning
from common.errors import PlanError
from common.wording import counted

Status = Decision.Status
Kind = Event.Kind
# Allowed transitions. Rejected, withdrawn and superseded decisions never change.
FROM = {
    Status.ACCEPTED: (Status.PROPOSED,),
    Status.REJECTED: (Status.PROPOSED,),
    Status.WITHDRAWN: (Status.PROPOSED,),
    Status.EXPIRED: (Status.ACCEPTED,),
    Status.SUPERSEDED: (Status.PROPOSED, Status.ACCEPTED, Status.EXPIRED, Status.CONTRADICTED),
}


class Columns(TypedDict, total=False):
    """Values of a decision that are stored as given: what users write, and the lowest and highest versions in scope."""

    question: str
    options: str
    decision: Required[str]
    reasons: str
    review_on: date | None
    postgresql_from: int | None
    postgresql_to: int | None
    kernel_from: str
    kernel_to: str


@transaction.atomic
def write_decision(
    *,
    by: User,
    campaign: Campaign,
    title: str,
    level: str = "",
    hosts: Sequence[Host] | None = None,
    labels: Sequence[str] = (),
    supersedes: Decision | None = None,
    team: Team | None = None,
    **columns: Unpack[Columns],
) -> Decision:
    """Propose a decision on an ended campaign, with frozen results. It supersedes `supersedes`, if given.

    `question`: by default that of the campaign; `hosts`: by default those of the campaign. `level`: the chosen
    combination of levels, whose settings are decided. `team`: the owner; None for all teams. PlanError names the
    invalid field."""
    require(by, Role.TUNER, "write decision", on=Decision(team=team))
    _check_ended(campaign)
    check_day(columns.get("review_on"))
    evidence, decided = queries.evidence(campaign), _decided(campaign, level)
    written = Decision(
        title=title.strip(),
        campaign=campaign,
        level=level,
        settings=decided,
        names=paths(decided),
        labels=sorted(set(labels)),
        **_stripped(columns, campaign),
        evidence=evidence,
        evidence_digest=digest(evidence),
        supersedes=supersedes,
        team=team,
        author=by,
    )
    listed = [campaign.host, *campaign.further_hosts.all()] if hosts is None else list(hosts)
    _check_scope(written, listed)
    _propose(written, listed, by=by)
    return written


def _stripped(columns: Columns, campaign: Campaign) -> dict[str, Any]:
    """Return the columns without space around texts. The question is by default that of the campaign."""
    values = {name: value.strip() if isinstance(value, str) else value for name, value in columns.items()}
    return {**values, "question": values.get("question") or campaign.question}


def _propose(decision: Decision, hosts: Sequence[Host], *, by: User) -> None:
    if decision.supersedes:
        _move(decision.supersedes, Status.SUPERSEDED, by=by, text=f"by “{decision.title}”")
    save(decision)
    decision.hosts.set(hosts)
    staleness.begin(decision)
    audit(by, "decision.write", decision, after={"id": decision.pk, "evidence": decision.evidence_digest})


def _decided(campaign: Campaign, level: str) -> dict[str, Any]:
    """Return the settings of the chosen combination of levels, from the spec of its runs; {} without one."""
    if not level:
        return {}
    runs = {run.label: run for run in campaign.runs.select_related("campaign").order_by("-position")}
    if level not in runs:
        raise PlanError("level", f"{level!r} was not run", hint="one of " + "; ".join(sorted(runs)) + "; or none")
    settings: dict[str, Any] = runs[level].spec.get("settings", {})
    return settings


def paths(settings: Mapping[str, Any]) -> list[str]:
    """{"sysctl": {"vm": {"swappiness": 1}}} -> sysctl, sysctl.vm, sysctl.vm.swappiness."""
    whole = list(rules.flatten(settings))
    parts = {path[:place] for path in whole for place, char in enumerate(path) if char == "."}
    return sorted({*whole, *parts})


def _check_scope(decision: Decision, listed: Sequence[Host]) -> None:
    """Check that the scope is not empty and includes measured hosts."""
    if not listed and not decision.labels:
        raise PlanError("hosts", "a decision needs at least one host", hint="name hosts, or labels of hosts")
    for field, what in (("postgresql_from", decision.postgresql), ("kernel_from", decision.kernel)):
        if what.wrong:
            raise PlanError(field, what.wrong, hint="accepted: versions such as 16 or 6.1, the lower one first")
    measured = measured_conditions.measured(decision.campaign)
    for host, conditions in measured.items():
        for field, what, name in (
            ("postgresql_from", decision.postgresql, conditions.postgresql),
            ("kernel_from", decision.kernel, conditions.kernel),
        ):
            if what and name and not what.holds(name):
                hint = "widen the range, or run a campaign on the version in question"
                raise PlanError(field, f"the evidence comes from {name} on {host}, outside {what}", hint=hint)


def check_day(day: date | None) -> None:
    if day and day <= timezone.localdate():
        raise PlanError("review_on", f"{day} is in the past", hint="choose a future date, or none")


@transaction.atomic
def accept_decision(decision: Decision, *, by: User) -> Decision:
    """Accept a proposed decision. If the team requires two users, its author cannot."""
    require(by, Role.TUNER, f"mark a decision as {Status.ACCEPTED.value}", on=decision)
    if settings.DECISIONS_BY_TWO and decision.author_id == by.pk:
        hint = "another user with the role tuner must accept it: your team requires two users"
        raise PlanError("status", f"{by} wrote this decision", hint=hint)
    accepted = _move(decision, Status.ACCEPTED, by=by)
    Decision.objects.filter(pk=decision.pk).update(accepted_by=by)
    accepted.accepted_by = by
    return accepted


@transaction.atomic
def reject_decision(decision: Decision, *, by: User) -> Decision:
    """Reject a proposed decision."""
    return _move(decision, Status.REJECTED, by=by)


@transaction.atomic
def withdraw_decision(decision: Decision, *, by: User) -> Decision:
    """Withdraw a proposed decision. Only its author can; others reject it."""
    require(by, Role.TUNER, "withdraw decision", on=decision)
    if decision.author_id != by.pk:
        hint = f"only {decision.author} can withdraw it; you can reject it"
        raise PlanError("status", f"{by} is not the author of this decision", hint=hint)
    return _move(decision, Status.WITHDRAWN, by=by)


@transaction.atomic
def renew_decision(decision: Decision, review_on: date | None, *, by: User) -> Decision:
    """Renew a decision after a review: one that expired is accepted again, until another day or for good."""
    require(by, Role.TUNER, "renew decision", on=decision)
    check_day(review_on)
    renewed = Decision.objects.filter(pk=decision.pk, status__in=(Status.EXPIRED, Status.ACCEPTED))
    if not renewed.update(status=Status.ACCEPTED, review_on=review_on):
        decision.refresh_from_db(fields=["status"])
        hint = "only an accepted or expired decision can be renewed"
        raise PlanError("status", f"{decision} is {decision.status}", hint=hint)
    before = {"status": decision.status, "review_on": str(decision.review_on or "")}
    after = {"id": decision.pk, "review_on": str(review_on or "")}
    add_event(decision, Kind.RENEWED, f"until {review_on}" if review_on else "for good", by=by)
    audit(by, "decision.renewed", decision, before=before, after=after)
    decision.refresh_from_db(fields=["status", "review_on"])
    return decision


def expire_due() -> None:
    """Expire accepted decisions whose review is due."""
    for decision in Decision.objects.filter(status=Status.ACCEPTED, review_on__lte=timezone.localdate()):
        with transaction.atomic():
            due = Decision.objects.filter(pk=decision.pk, status=Status.ACCEPTED, review_on=decision.review_on)
            if due.update(status=Status.EXPIRED):
                add_event(decision, Kind.EXPIRED, f"its review date was {decision.review_on}")
                audit(None, "decision.expired", decision, after={"id": decision.pk})


def export(decision: Decision, host: Host, name: str) -> tuple[str, str]:
    """Return (file name, text) of the decided values on a host, in one of the formats of profiles."""
    if not decision.settings:
        hint = "only a decision that names the chosen level defines values to set"
        raise PlanError("decision", f"{decision} sets nothing", hint=hint)
    title = f"Decision {decision.pk}, {decision.title}, on {host}, evidence sha256 {decision.evidence_digest[:12]}"
    suffix, text = tuning.exported_text(decision.settings, host, name, title)
    return f"decision-{decision.pk}-{host}{suffix}", text


@transaction.atomic
def comment(decision: Decision, text: str, *, dissent: bool = False, by: User) -> Comment:
    """Add dissent or a comment, in any state of the decision."""
    require(by, Role.OPERATOR, "comment", on=decision)
    if not text.strip():
        raise PlanError("text", "a comment cannot be empty")
    added = Comment.objects.create(decision=decision, author=by, text=text.strip(), dissent=dissent)
    audit(by, "decision.comment", decision, after={"id": decision.pk, "comment": added.pk, "dissent": dissent})
    return added


def _move(decision: Decision, to: Status, *, by: User, text: str = "") -> Decision:
    """Change the status by a conditional update: of two users who act at the same time, one gets an error."""
    require(by, Role.TUNER, f"mark a decision as {to.value}", on=decision)
    before = decision.status
    if not Decision.objects.filter(pk=decision.pk, status__in=FROM[to]).update(status=to):
        decision.refresh_from_db(fields=["status"])
        field = "supersedes" if to is Status.SUPERSEDED else "status"
        hint = f"only a decision that is {' or '.join(FROM[to])} can become {to.value}"
        raise PlanError(field, f"{decision} is {decision.status}", hint=hint)
    decision.refresh_from_db(fields=["status"])
    add_event(decision, Kind(to.value), text, by=by)
    audit(by, f"decision.{to.value}", decision, before={"status": before}, after={"id": decision.pk, "status": to})
    return decision


def _check_ended(campaign: Campaign) -> None:
    """Refuse a campaign that has not ended: deciding earlier would favour figures that happen to look good."""
    if campaign.ended_at is None:
        hint = "write a decision after the campaign has finished or was cancelled"
        raise PlanError("campaign", f"{campaign} is {campaign.state}", hint=hint)
    unread = campaign.runs.filter(ingested_at=None).count()
    if unread:
        message = f"results of {counted(unread, 'run')} are not processed yet"
        raise PlanError("campaign", message, hint="try again in a few seconds")

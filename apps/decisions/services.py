"""Writing decisions with frozen evidence, accepting, rejecting and discussing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from django.db import transaction
from django.utils import timezone

from agents.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns.models import Campaign
from apps.decisions.models import Comment, Decision
from apps.errors import PlanError
from apps.hosts.models import Host
from apps.results import queries

Status = Decision.Status
# What can become what; a rejected or superseded decision stays what it is.
FROM = {
    Status.ACCEPTED: (Status.PROPOSED,),
    Status.REJECTED: (Status.PROPOSED,),
    Status.SUPERSEDED: (Status.PROPOSED, Status.ACCEPTED),
}


@transaction.atomic
def write_decision(
    *,
    by: User,
    campaign: Campaign,
    title: str,
    decision: str,
    question: str = "",
    reasons: str = "",
    hosts: Sequence[Host] | None = None,
    review_on: date | None = None,
    supersedes: Decision | None = None,
) -> Decision:
    """A proposed decision on an ended campaign, its results frozen; it marks the one that it supersedes.

    `question` is the campaign's by default, `hosts` its host. PlanError names the field that is wrong.
    """
    require(by, Role.TUNER, "write decision")
    _check_ended(campaign)
    if review_on and review_on <= timezone.localdate():
        raise PlanError("review_on", f"{review_on} has passed", hint="give a day to come, or none")
    evidence = queries.evidence(campaign)
    written = Decision(
        title=title.strip(),
        question=question.strip() or campaign.question,
        decision=decision.strip(),
        reasons=reasons.strip(),
        campaign=campaign,
        evidence=evidence,
        evidence_digest=digest(evidence),
        review_on=review_on,
        supersedes=supersedes,
        author=by,
    )
    if supersedes:
        _move(supersedes, Status.SUPERSEDED, by=by)
    save(written)
    written.hosts.set([campaign.host] if hosts is None else hosts)
    audit(by, "decision.write", written, after={"id": written.pk, "evidence": written.evidence_digest})
    return written


@transaction.atomic
def accept_decision(decision: Decision, *, by: User) -> Decision:
    """Only a proposed one can be accepted."""
    return _move(decision, Status.ACCEPTED, by=by)


@transaction.atomic
def reject_decision(decision: Decision, *, by: User) -> Decision:
    """Only a proposed one can be rejected."""
    return _move(decision, Status.REJECTED, by=by)


@transaction.atomic
def comment(decision: Decision, text: str, *, by: User) -> Comment:
    """Dissent or an addition, in whatever state the decision is."""
    require(by, Role.OPERATOR, "comment")
    if not text.strip():
        raise PlanError("text", "a comment needs a text")
    said = Comment.objects.create(decision=decision, author=by, text=text.strip())
    audit(by, "decision.comment", decision, after={"id": decision.pk, "comment": said.pk})
    return said


def _move(decision: Decision, to: Status, *, by: User) -> Decision:
    """A conditional update, so that of two people who act at once one is told."""
    require(by, Role.TUNER, f"make a decision {to.value}")
    before = decision.status
    if not Decision.objects.filter(pk=decision.pk, status__in=FROM[to]).update(status=to):
        decision.refresh_from_db(fields=["status"])
        field = "supersedes" if to is Status.SUPERSEDED else "status"
        hint = f"only what is {' or '.join(FROM[to])} can become {to.value}"
        raise PlanError(field, f"{decision} is {decision.status}", hint=hint)
    decision.refresh_from_db(fields=["status"])
    audit(by, f"decision.{to.value}", decision, before={"status": before}, after={"id": decision.pk, "status": to})
    return decision


def _check_ended(campaign: Campaign) -> None:
    """Deciding on a campaign that still runs would be peeking until the figures please."""
    if campaign.ended_at is None:
        hint = "a decision is written when it has finished, or was cancelled"
        raise PlanError("campaign", f"{campaign} is {campaign.state}", hint=hint)
    unread = campaign.runs.filter(ingested_at=None).count()
    if unread:
        raise PlanError("campaign", f"results of {unread} runs are not read yet", hint="try again in a few seconds")

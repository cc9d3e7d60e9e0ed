"""Compare newer results with the evidence of decisions: confirmed, contradicted or inconclusive."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.urls import reverse

from apps.accounts.notices.notify import notify
from apps.campaigns.models import Campaign
from apps.decisions.models import Decision, Review
from apps.decisions.validity import confirmation
from apps.decisions.validity.newer_results import review_verdict

Verdict = Review.Verdict


def review_due() -> None:
    """Compare every decision that is followed with every later campaign of the same comparison, each pair once."""
    for decision in Decision.objects.alive().select_related("campaign__workload"):
        for campaign in newer(decision):
            review(decision, campaign)


def newer(decision: Decision) -> QuerySet[Campaign]:
    """Return campaigns that finished later on a host in scope, with its workload and metric, completely parsed and
    not yet compared."""
    original = decision.campaign
    same = Campaign.objects.filter(workload=original.workload, metric=original.metric, state=Campaign.State.FINISHED)
    later = same.filter(ended_at__gt=decision.created_at, runs__host__in=decision.scope).exclude(pk=original.pk)
    read = later.exclude(pk__in=Campaign.objects.filter(runs__ingested_at=None, ended_at__gt=decision.created_at))
    held = Review.objects.filter(decision=decision, campaign=OuterRef("pk"), reviewed_at__gt=OuterRef("ended_at"))
    return read.filter(~Exists(held)).distinct()


@transaction.atomic
def review(decision: Decision, campaign: Campaign) -> Review:
    """Store what the newer campaign shows, also if it showed something else before it was extended. Notifies
    subscribers of a contradiction."""
    Decision.objects.select_for_update().get(pk=decision.pk)  # two at the same time would notify twice
    before = Review.objects.filter(decision=decision, campaign=campaign).first()
    verdict, reason = review_verdict(decision, campaign)
    fields = {"verdict": verdict, "text": reason}
    saved, _ = Review.objects.update_or_create(decision=decision, campaign=campaign, defaults=fields)
    if verdict == Verdict.CONTRADICTS and not (before and before.verdict == verdict):
        _tell(saved)
    confirmation.settle(saved)
    return saved


def _tell(review: Review) -> None:
    payload = {
        "text": f"{review.decision.decision}\n\n{review.text}",
        "path": reverse("decision_detail", args=[review.decision_id]),
        "decision": review.decision_id,
        "campaign": str(review.campaign_id),
        "reason": review.text,
    }
    notify("decision.contradicted", f"{review.decision} is contradicted by {review.campaign}", payload, about=[review])


def contradicted() -> QuerySet[Decision]:
    """Return the decisions that are followed and contradicted by a newer campaign, unless a still newer one confirms
    them."""
    reviews = Review.objects.filter(decision=OuterRef("pk")).exclude(verdict=Verdict.OPEN).order_by("-reviewed_at")
    last = Subquery(reviews.values("verdict")[:1])
    return Decision.objects.alive().annotate(last=last).filter(last=Verdict.CONTRADICTS)

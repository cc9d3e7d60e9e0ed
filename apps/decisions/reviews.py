"""Newer results beside the evidence of a decision: do they say the same, the contrary, or nothing certain?"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.urls import reverse

from apps.accounts.notify import notify
from apps.campaigns.models import Campaign
from apps.decisions.models import Decision, Review
from apps.results import queries
from apps.results.queries import LevelRow

CERTAIN = ("better", "worse", "equivalent")
Verdict = Review.Verdict


def review_due() -> None:
    """Hold every accepted decision against every campaign that asked the same after it, each pair once."""
    for decision in Decision.objects.filter(status=Decision.Status.ACCEPTED).select_related("campaign__workload"):
        for campaign in newer(decision):
            review(decision, campaign)


def newer(decision: Decision) -> QuerySet[Campaign]:
    """Finished after it, on a host in its scope, with its workload and its metric, all results read; not held against
    it since."""
    asked = decision.campaign
    same = Campaign.objects.filter(workload=asked.workload, metric=asked.metric, state=Campaign.State.FINISHED)
    later = same.filter(ended_at__gt=decision.created_at, runs__host__in=decision.scope).exclude(pk=asked.pk)
    read = later.exclude(pk__in=Campaign.objects.filter(runs__ingested_at=None, ended_at__gt=decision.created_at))
    held = Review.objects.filter(decision=decision, campaign=OuterRef("pk"), reviewed_at__gt=OuterRef("ended_at"))
    return read.filter(~Exists(held)).distinct()


@transaction.atomic
def review(decision: Decision, campaign: Campaign) -> Review:
    """What the newer campaign says, also where it said something else before it was extended; whoever wants to hear of
    a contradiction is told."""
    Decision.objects.select_for_update().get(pk=decision.pk)  # two at once would tell twice
    before = Review.objects.filter(decision=decision, campaign=campaign).first()
    verdict, words = _say(decision, campaign)
    given = {"verdict": verdict, "words": words}
    found, _ = Review.objects.update_or_create(decision=decision, campaign=campaign, defaults=given)
    if verdict == Verdict.CONTRADICTS and not (before and before.verdict == verdict):
        _tell(found)
    return found


def _say(decision: Decision, campaign: Campaign) -> tuple[str, str]:
    """A contradiction in one level outweighs that the others agree."""
    frozen = decision.evidence
    then = {row["label"]: row["verdict"] for row in frozen["table"]["levels"]}
    if not _same_levels(frozen["campaign"]["factors"], campaign.factors):
        return Verdict.OPEN, "It compared other settings."
    table = queries.campaign_table(campaign)
    if table.baseline != frozen["table"]["baseline"]:
        return Verdict.OPEN, f"It compared with {table.baseline}, the evidence with {frozen['table']['baseline']}."
    sure = [row for row in table.levels if row.verdict in CERTAIN and not row.preliminary]
    certain = [row for row in sure if then.get(row.label) in CERTAIN]
    contrary = [row for row in certain if row.verdict != then[row.label]]
    if contrary:
        return Verdict.CONTRADICTS, " ".join(_words(row, then[row.label]) for row in contrary)
    if certain:
        return Verdict.CONFIRMS, " ".join(row.sentence for row in certain)
    return Verdict.OPEN, "Nothing that both compared is certain in both."


def _words(row: LevelRow, then: str) -> str:
    return f"The evidence found {row.label} {then}. Now: {row.sentence}"


def _same_levels(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    """Whether they have the same factors, and what has one name sets the same."""
    one, other = _sets(ours), _sets(theirs)
    factors = {factor for factor, _ in one} == {factor for factor, _ in other}
    return factors and all(one[each] == other[each] for each in one.keys() & other.keys())


def _sets(factors: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {(each["name"], level["label"]): level["set"] for each in factors for level in each["levels"]}


def _tell(found: Review) -> None:
    payload = {
        "text": f"{found.decision.decision}\n\n{found.words}",
        "path": reverse("decision_detail", args=[found.decision_id]),
        "decision": found.decision_id,
        "campaign": str(found.campaign_id),
        "reason": found.words,
    }
    notify("decision.contradicted", f"{found.decision} is contradicted by {found.campaign}", payload)


def contradicted() -> QuerySet[Decision]:
    """Accepted decisions that a newer campaign contradicts, unless a still newer one confirms them."""
    said = Review.objects.filter(decision=OuterRef("pk")).exclude(verdict=Verdict.OPEN).order_by("-reviewed_at")
    last = Subquery(said.values("verdict")[:1])
    accepted = Decision.objects.filter(status=Decision.Status.ACCEPTED)
    return accepted.annotate(last=last).filter(last=Verdict.CONTRADICTS)

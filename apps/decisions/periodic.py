"""Periodic work for decisions, and for what must know of them."""

from __future__ import annotations

from django.conf import settings
from django.db.models import QuerySet

from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.models import Decision
from apps.decisions.validity import reviews, staleness
from apps.results.store import details


def tend() -> None:
    """Expire decisions that are due, compare hosts that changed, and review newer campaigns."""
    services.expire_due()
    staleness.update_due_standings()
    reviews.review_due()


def decided() -> QuerySet[Campaign]:
    """Return the campaigns on which a decision rests, whatever became of it."""
    return Campaign.objects.filter(pk__in=Decision.objects.order_by().values("campaign"))


def drop_details_due() -> None:
    """Drop the details of old runs as PROVING_RETAIN_DETAILS_DAYS says; 0 keeps them."""
    if settings.RETAIN_DETAILS_DAYS:
        details.drop_details(settings.RETAIN_DETAILS_DAYS, decided(), until_s=details.WORK_S)

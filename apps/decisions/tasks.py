"""Make one call."""

from __future__ import annotations

from celery import shared_task

from apps.decisions import reviews


@shared_task(name="decisions.review_due")
def review_due() -> None:
    """Campaigns that ended since the last time, beside what was decided."""
    reviews.review_due()

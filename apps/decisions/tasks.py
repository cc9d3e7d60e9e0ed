"""Make one call."""

from __future__ import annotations

from celery import shared_task

from apps.decisions import periodic


@shared_task(name="decisions.drop_details_due")
def drop_details_due() -> None:
    """Drop the details of old runs, except those on which a decision rests."""
    periodic.drop_details_due()


@shared_task(name="decisions.review_due")
def review_due() -> None:
    """Review decisions that are due, and compare campaigns that ended with what was decided."""
    periodic.tend()

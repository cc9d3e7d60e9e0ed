"""Make one call."""

from __future__ import annotations

from celery import shared_task

from apps.decisions import periodic


@shared_task(name="decisions.review_due")
def review_due() -> None:
    """Review decisions that are due, and compare campaigns that ended with what was decided."""
    periodic.tend()

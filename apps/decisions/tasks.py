"""Make one call."""

from __future__ import annotations

from celery import shared_task

from apps.decisions import periodic


@shared_task(name="decisions.review_due")
def review_due() -> None:
    """Days that came, and campaigns that ended since the last time, beside what was decided."""
    periodic.tend()

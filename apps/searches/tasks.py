"""Take an id, make one call."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.infrastructure import waking
from apps.searches import rounds


@shared_task(name="searches.advance")
def advance(search_id: str) -> None:
    rounds.advance(UUID(search_id), timezone.now())


@shared_task(name="searches.advance_due")
def advance_due() -> None:
    """Searches whose round has ended, or whose next campaign was not started."""
    for search_id in rounds.due():
        waking.carry_out(advance, str(search_id))

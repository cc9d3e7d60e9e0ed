"""Periodic work for decisions, every half minute."""

from __future__ import annotations

from apps.decisions import services
from apps.decisions.validity import reviews, staleness


def tend() -> None:
    """Expire decisions that are due, compare hosts that changed, and review newer campaigns."""
    services.expire_due()
    staleness.update_due_standings()
    reviews.review_due()

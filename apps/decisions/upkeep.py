"""What is done for decisions every half a minute, whoever is awake."""

from __future__ import annotations

from apps.decisions import reviews, services


def tend() -> None:
    """Expire what is due; hold newer campaigns against what was decided."""
    services.expire_due()
    reviews.review_due()

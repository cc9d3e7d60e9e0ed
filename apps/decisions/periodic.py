"""What is done for decisions every half a minute, whoever is awake."""

from __future__ import annotations

from apps.decisions import services
from apps.decisions.validity import reviews, staleness


def tend() -> None:
    """Expire what is due; look at hosts that changed; hold newer campaigns against what was decided."""
    services.expire_due()
    staleness.update_due_standings()
    reviews.review_due()

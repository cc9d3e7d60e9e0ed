"""Template variables of every page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def version(request: HttpRequest) -> dict[str, str]:
    """Return version and commit, for the footer."""
    return {"server_version": settings.VERSION, "server_commit": settings.COMMIT}

"""Filters of a run's page."""

from __future__ import annotations

from django import template

from apps.campaigns.models import RunEvent
from apps.results.story import text_of

register = template.Library()


@register.filter
def told(event: RunEvent) -> str:
    """An event as one line of text."""
    return text_of(event)

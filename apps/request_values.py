"""Parses numbers and days from URLs, forms and headers, which can contain anything."""

from __future__ import annotations

from datetime import date, datetime, time

from django.http import HttpRequest
from django.utils import timezone

MOST_DIGITS = 18  # fits PostgreSQL's bigint


def whole(text: str, digits: int = MOST_DIGITS) -> int | None:
    """The number from 0 that `text` writes in at most `digits` decimal digits of ASCII; None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def content_length(request: HttpRequest) -> int:
    """The bytes of the body as Content-Length declares them; 0 without a valid header.

    Of a number with more digits than any body has, the first ones: that is too large, too."""
    text = request.META.get("CONTENT_LENGTH") or ""
    return int(text.lstrip("0")[:MOST_DIGITS] or "0") if text.isascii() and text.isdecimal() else 0


def first_moment(day: date) -> datetime:
    """Midnight at the beginning of a day."""
    return timezone.make_aware(datetime.combine(day, time.min))


def last_moment(day: date) -> datetime:
    """The last microsecond of a day: the last day there is has no midnight at its end."""
    return timezone.make_aware(datetime.combine(day, time.max))

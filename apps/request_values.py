"""Parses numbers and days from URLs and forms, which can contain anything."""

from __future__ import annotations

from datetime import date, datetime, time

from django.utils import timezone

MOST_DIGITS = 18  # fits PostgreSQL's bigint


def whole(text: str, digits: int = MOST_DIGITS) -> int | None:
    """The number from 0 that `text` writes in at most `digits` decimal digits of ASCII; None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def first_moment(day: date) -> datetime:
    """Midnight at the beginning of a day."""
    return timezone.make_aware(datetime.combine(day, time.min))


def last_moment(day: date) -> datetime:
    """The last microsecond of a day: the last day there is has no midnight at its end."""
    return timezone.make_aware(datetime.combine(day, time.max))

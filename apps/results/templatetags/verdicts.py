"""Verdicts of comparisons and tones of findings in templates."""

from __future__ import annotations

from django import template

from common import verdicts
from common.verdicts import TONES, ToneStyle, Verdict

register = template.Library()


@register.filter
def verdict(name: str) -> Verdict:
    """Its word, icon and css class, by the name that is stored."""
    return verdicts.verdict(name)


@register.filter
def verdict_word(name: str | None) -> str:
    """ "direction_better" -> "likely better"; "" without a verdict."""
    return verdicts.verdict(name).word if name else ""


@register.filter
def tone(name: str) -> ToneStyle:
    return TONES[name]

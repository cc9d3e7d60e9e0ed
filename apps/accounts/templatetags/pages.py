"""Filters of every template: what a user may do, and figures as people read them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django import template
from django.utils.html import format_html

from apps.accounts.models import HasOwners, Role, User
from apps.accounts.models.walls import sees
from apps.accounts.second_factor import ceremony
from apps.web.pages import spoken
from common.wording import signed

register = template.Library()
register.filter("is_visible", sees)
register.simple_tag(ceremony.origin, name="passkey_origin")
DASH = "\u2013"
LONG = 90
ANSI = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True)
class Requester:
    """A user, and the object or the scope to check. Not a function: a template would call it."""

    user: Any
    thing: HasOwners | None = None
    anywhere: bool = False

    def may(self, role: Role) -> bool:
        if not isinstance(self.user, User):
            return False
        return self.user.may_somewhere(role) if self.anywhere else self.user.may(role, self.thing)


@register.filter
def may(requester: Any, role: str) -> bool:
    """Whether `requester` has `role`: a user, in the instance, or what the filters `on` and `somewhere` return."""
    return isinstance(requester, User | Requester) and requester.may(Role(role))


@register.filter
def on(user: Any, thing: HasOwners) -> Requester:
    """`{% if user|on:host|may:"admin" %}`: the role on an object that a team can own."""
    return Requester(user, thing)


@register.filter
def somewhere(user: Any) -> Requester:
    """`{% if user|somewhere|may:"tuner" %}`: the role in the instance or in any team, for pages without an object."""
    return Requester(user, anywhere=True)


@register.filter
def span(seconds: float | timedelta | None) -> str:
    """8.25 -> "8.2 s", 5.0 -> "5 s", 130 -> "2 min 10 s", 7300 -> "2 h 2 min"."""
    if seconds is None:
        return DASH
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if total < 10:
        return f"{total:.2g} s"
    minutes, rest = divmod(round(total), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0 s"


@register.filter
def in_zone(at: datetime | None) -> str:
    """A time with its zone, in which it stays: "Mon 2026-03-30 02:30 CEST"."""
    return DASH if at is None else f"{at:%a %Y-%m-%d %H:%M %Z}"


@register.filter
def figure(value: float | None, digits: int = 4) -> str:
    """Significant digits; whole numbers with thousands apart from 1 000 on: 12345.678 -> "12 346" (narrow no-break
    space), so that the numbers of a column have the same form. Never with an exponent: 2.889e-05 -> "0.00002889"."""
    if value is None:
        return DASH
    sign = "\u2212" if value < 0 else ""
    if abs(value) >= min(999.5, 10 ** (digits - 1)):
        return sign + f"{abs(value):,.0f}".replace(",", "\u202f")
    return f"{sign}{Decimal(f'{abs(value):.{digits}g}'):f}"


@register.filter
def signed_percent(value: float | None) -> str:
    """+2.69 % with a true minus sign and three significant digits."""
    return DASH if value is None else f"{signed(value)}\u202f%".replace("-", "\u2212")


@register.filter
def tick_percent(value: float) -> str:
    """A label of a scale: "0", "+5 %"."""
    return f"{value:+g}\u202f%".replace("-", "\u2212") if abs(value) > 1e-9 else "0"


@register.filter
def kib(value: float | str | None) -> str:
    """KiB -> "15.6 GiB". A missing value is ""."""
    if value is None or value == "":
        return DASH
    amount, units = float(value), ["KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.4g} {units[0]}"


@register.filter
def ghz(value: float | None) -> str:
    """kHz -> "3.7 GHz"."""
    return f"{value / 1e6:.3g} GHz" if value else DASH


@register.filter
def percent(share: float | None) -> str:
    """0.02 -> "2 %"."""
    return DASH if share is None else f"{share * 100:g}\u202f%"


@register.filter
def pretty(value: Any) -> str:
    """Format JSON for readers; text stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def brief(value: Any) -> str:
    """A value in one cell of a table."""
    if value is None:
        return DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def as_lines(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Nested values as (dotted path, text) lines, in their order."""
    if isinstance(value, dict) and value:
        return [line for name, inner in value.items() for line in as_lines(inner, f"{path}.{name}".lstrip("."))]
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        return [line for place, inner in enumerate(value) for line in as_lines(inner, f"{path}.{place}".lstrip("."))]
    return [(path, _scalar(value))]


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_scalar, value)) or "none"
    return "none" if value in (None, "", {}) else str(value)


@register.filter
def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@register.filter
def unbroken_option(label: str) -> str:
    """A label whose option, such as (--max-tries), never breaks after a hyphen."""
    before, bracket, option = label.partition("(-")
    if not bracket or ")" not in option:
        return label
    option, _, after = option.partition(")")
    return format_html('{}<span class="kept">(-{})</span>{}', before, option, after)


@register.filter
def long(value: Any) -> bool:
    """Whether a value is too long for a cell: a whole file, say."""
    return isinstance(value, str) and (len(value) > LONG or "\n" in value)


@register.filter
def plain(text: str) -> str:
    """Return the output of a tool without escape sequences, control characters and changes of the direction of text."""
    return ANSI.sub("", str(text))


@register.filter
def get(mapping: Any, key: Any) -> Any:
    return mapping.get(key) if mapping else None


register.filter(spoken)

"""The facts of an object as data, for the definition lists of pages: templates/components/pairs.html draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

LOOKS = {
    "": "{}",
    "code": "<code>{}</code>",
    "strong": "<strong>{}</strong>",
    "muted": ' <span class="muted">{}</span>',
    "nowrap": '<span class="nowrap">{}</span>',
    "struck": "<s>{}</s>",
    "break": "<br>",
}


@dataclass(frozen=True)
class Part:
    """A part of a value: a link if it has `href`, otherwise text with a look of LOOKS; "break" is a new line."""

    text: Any
    look: str = ""
    href: str = ""

    @property
    def html(self) -> SafeString:
        if self.href:
            return format_html('<a href="{}">{}</a>', self.href, self.text)
        return format_html(LOOKS[self.look], self.text)


@dataclass(frozen=True)
class Pair:
    """A name and its value: parts in a row, then a list of items, then a template for what these cannot express."""

    name: str
    parts: tuple[Part, ...]
    items: tuple[str, ...] = ()
    template: str = ""


BREAK = Part("", "break")


def pair(name: str, *parts: Any, items: Iterable[str] = (), template: str = "") -> Pair:
    """A pair of parts and plain values. Empty strings are left out, so that a part can depend on a condition."""
    shown = (each if isinstance(each, Part) else Part(each) for each in parts if each != "")
    return Pair(name, tuple(shown), tuple(items), template)


def code(text: Any) -> Part:
    return Part(text, "code")


def muted(text: Any) -> Part:
    """A note, with a space before it."""
    return Part(text, "muted")


def link(text: Any, view: str, *args: Any, **query: Any) -> Part:
    """A link to the page of this URL name, with a query: `link(revision, "profile_detail", name, r=2)`."""
    return Part(str(text), href=reverse(view, args=args) + (f"?{urlencode(query)}" if query else ""))


def joined(separator: Part | str, values: Iterable[Any], none: str = "") -> Iterator[Any]:
    """The parts of a list of values, each one part or a tuple of parts; `none` for an empty list."""
    place = -1
    for place, value in enumerate(values):
        if place:
            yield separator
        yield from value if isinstance(value, tuple) else (value,)
    if place < 0:
        yield none

"""Saved views and the dashboard: save, change, move, remove. Each action is audited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from django.db import transaction
from django.db.models import CharField, QuerySet

from apps.accounts.models import Role, User
from apps.accounts.models.walls import everything
from apps.accounts.services import audit, require, save
from apps.results.explore import chart_addresses
from apps.results.models import Pin
from common.errors import PlanError

MOST = 60  # charts on the dashboard
WAYS = {"up": -1, "down": 1}


@dataclass(frozen=True)
class Card:
    """A saved view with its target. `place` is None if that does not exist any more, and `why` has the reason."""

    pin: Pin
    place: chart_addresses.ChartAddress | None
    why: str = ""


def cards(pins: Iterable[Pin]) -> list[Card]:
    """Return the cards in the same order. The number of queries does not depend on the number of views."""
    all_cards = [_card(pin) for pin in pins]
    gone = chart_addresses.missing_objects(card.place for card in all_cards if card.place)
    return [
        Card(card.pin, None, "the object that it showed was deleted") if card.place and card.place.key in gone else card
        for card in all_cards
    ]


def _card(pin: Pin) -> Card:
    """Return the card. A page or chart may have been removed from the program too."""
    try:
        return Card(pin, chart_addresses.find(pin.address, pin.chart))
    except PlanError as error:
        return Card(pin, None, error.message)


def dashboard() -> QuerySet[Pin]:
    """Return the views on the dashboard, in order."""
    return Pin.objects.exclude(position=None).order_by("position", "pk")


@transaction.atomic
def pin(*, by: User, address: str, chart: str = "", title: str = "", note: str = "", dashboard: bool = True) -> Pin:
    """Save a chart as the URL of its page selects it: last on the dashboard, or only as a link. The default title is
    that of its page."""
    require(by, Role.OPERATOR, "save a view")
    place, shows = chart_addresses.complete(address, chart)
    made = Pin(title=title.strip() or short(shows), note=note.strip(), shows=short(shows, "shows"), by=by)
    made.address, made.chart = place.address, place.chart
    made.position = _last() if dashboard else None
    save(made)
    audit(by, "pin.create", made, after=_as_dict(made))
    return made


def short(text: str, field: str = "title") -> str:
    """Shorten a text to the length of the field."""
    most = cast("CharField[str, str]", Pin._meta.get_field(field)).max_length or 0
    return text if len(text) <= most else f"{text[: most - 1]}…"


@transaction.atomic
def change(
    pin: Pin, *, by: User, title: str | None = None, note: str | None = None, dashboard: bool | None = None
) -> Pin:
    """Change the given fields. The chart itself never changes, so that its link keeps its meaning."""
    require(by, Role.OPERATOR, "change a saved view")
    before = _as_dict(pin)
    pin.title = pin.title if title is None else title.strip()
    pin.note = pin.note if note is None else note.strip()
    if dashboard is not None and dashboard != pin.dashboard:
        pin.position = _last() if dashboard else None
    save(pin)
    audit(by, "pin.change", pin, before=before, after=_as_dict(pin))
    return pin


@transaction.atomic
def move(pin: Pin, way: str, *, by: User) -> None:
    """Move it up or down by one position on the dashboard."""
    require(by, Role.OPERATOR, "move a saved view")
    if way not in WAYS:
        raise PlanError("way", f"{way!r} is not a direction", hint=f"accepted: {', '.join(WAYS)}")
    order = list(dashboard().select_for_update())
    if pin not in order:
        raise PlanError("way", f"{pin} is not on the dashboard", hint="add it to the dashboard first")
    place = order.index(pin)
    target = place + WAYS[way]
    if not 0 <= target < len(order):
        raise PlanError("way", f"{pin} is already {'first' if way == 'up' else 'last'}", hint="move another one")
    order[place], order[target] = order[target], order[place]
    number = 0
    for earlier, each in zip(sorted(each.position or 0 for each in order), order, strict=True):
        number = max(earlier, number + 1)  # views that were saved at the same time can have the same position
        each.position = number
    Pin.objects.bulk_update(order, ["position"])
    audit(by, "pin.move", pin, after={"id": pin.pk, "way": way, "position": target + 1})


@transaction.atomic
def remove(pin: Pin, *, by: User) -> None:
    """Delete it with its short link. The data it shows remains."""
    require(by, Role.OPERATOR, "remove a saved view")
    audit(by, "pin.remove", pin, before=_as_dict(pin))
    pin.delete()


def _last() -> int:
    """Return the position after all others. PlanError if the dashboard is full."""
    shown = dashboard().count()
    if shown >= MOST:
        hint = "remove a chart first, or save this one without the dashboard"
        raise PlanError("dashboard", f"it already has {shown} charts, the maximum", hint=hint)
    with everything():
        return max((pin.position or 0 for pin in dashboard().select_for_update()), default=0) + 1


def _as_dict(pin: Pin) -> dict[str, Any]:
    names = ("title", "note", "address", "chart", "position")
    return {"id": pin.pk, **{name: getattr(pin, name) for name in names}}

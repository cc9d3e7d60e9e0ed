"""Saved views of a team: one for each kind of page, one of a removed object, and one that is only a link."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import uuid4

from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results.explore import pins
from apps.results.models import Pin


def explorer(campaign: Campaign, **query: str) -> str:
    return f"{reverse('campaign_explore', args=[campaign.pk])}?{urlencode(query)}"


def comparison(campaign: Campaign, *labels: str) -> str:
    return f"{reverse('compare')}?{urlencode([('of', f'level:{campaign.pk}:{label}') for label in labels])}"


def dashboard(by: User, two_factors: Campaign, run: Run) -> list[Pin]:
    """In the order of the dashboard, the saved view last."""
    note = "Look here after each minor release: below 10 % the huge pages are not worth their care."
    heat = explorer(two_factors, x="shared_buffers", colour="huge pages", shape="heat")
    sides = comparison(two_factors, "8GB, off", "8GB, on")
    campaign, ran = (
        reverse(name, args=[of.pk]) for name, of in (("campaign_detail", two_factors), ("run_detail", run))
    )
    return [
        pins.pin(by=by, address=heat, title="Huge pages by shared_buffers", note=note),
        pins.pin(by=by, address=sides, chart="interval"),
        pins.pin(by=by, address=campaign, chart="differences"),
        pins.pin(by=by, address=f"{ran}?from=1&to=4"),
        gone(pins.pin(by=by, address=ran, title="A run that was removed since")),
        pins.pin(by=by, address=explorer(two_factors, x="@order"), title="Drift over the night", dashboard=False),
    ]


def gone(pin: Pin) -> Pin:
    """What it shows is there no more."""
    Pin.objects.filter(pk=pin.pk).update(address=reverse("run_detail", args=[uuid4()]))
    return pin

"""What a kind of channel declares: its words on pages, who sets it up, how it checks an address and sends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from apps.accounts.models import Delivery


class ChannelKind(ABC):
    """One kind of channel. `name` is stored with each channel of it, and part of addresses."""

    name: str
    noun: str  # as in "Add a webhook"
    intro: str
    address_label: str
    address_help: str = ""
    for_admins = False  # it makes this server call another; its address may hold a secret, so others see its host only
    signed = False  # it has a secret of its own, which is shown once

    @abstractmethod
    def check(self, address: str) -> None:
        """PlanError or HostError if nothing can be sent to `address`."""

    @abstractmethod
    def send(self, delivery: Delivery) -> int | None:
        """The status of an HTTP receiver's response, else None. PlanError or HostError if it cannot be sent."""

    def shown(self, address: str) -> str:
        """The address for those who may not change the channel, and for the audit log."""
        return "/".join([*address.split("/")[:3], "…"]) if self.for_admins else address


def message(delivery: Delivery) -> dict[str, Any]:
    """A delivery as plain data: {"id", "event", "at", "subject", "text", "url", "data"}."""
    data = {key: value for key, value in delivery.payload.items() if key not in ("text", "path")}
    return {
        "id": str(delivery.pk),
        "event": delivery.kind,
        "at": delivery.created_at.isoformat(),
        "subject": delivery.subject,
        "text": delivery.payload.get("text", ""),
        "url": settings.BASE_URL + delivery.payload.get("path", "/"),
        "data": data,
    }

"""What a kind of channel declares: its words on pages, who sets it up, how it checks an address and sends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from apps.accounts.models import Delivery


@dataclass(frozen=True)
class Field:
    """A value that a user enters for a channel, in the form and in the API."""

    name: str
    label: str
    help: str = ""
    secret: bool = False  # stored encrypted, never shown again; a kind has at most one such field
    required: bool = True


class ChannelKind(ABC):
    """One kind of channel. `name` (at most 20 characters) is stored with each channel of it, and part of addresses."""

    name: str
    noun: str  # as in "Add a webhook"
    intro: str
    fields: tuple[Field, ...]  # one is named "address": lists show it as the destination
    for_admins = False  # it makes this server call another; its address may hold a secret, so others see its host only
    signed = False  # the server creates a secret for each channel, and shows it once

    @abstractmethod
    def check(self, values: Mapping[str, str]) -> None:
        """PlanError or HostError if nothing can be sent there. `values`: field -> value, without the secret.

        The subject of a PlanError is `address`, or `details.NAME` for another field.
        """

    @abstractmethod
    def send(self, delivery: Delivery) -> int | None:
        """The status of an HTTP receiver's response, else None. PlanError or HostError if it cannot be sent.

        `delivery.channel` has `address`, `details` (the other fields) and `decrypt_secret()`.
        """

    @property
    def secret_field(self) -> Field | None:
        return next((field for field in self.fields if field.secret), None)

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

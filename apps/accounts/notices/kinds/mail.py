"""Mail: one plain message for each event, with a link to its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from apps.accounts.notices import mail
from apps.accounts.notices.kinds.base import ChannelKind, Field, message
from common.errors import PlanError

if TYPE_CHECKING:
    from apps.accounts.models import Delivery


class Mail(ChannelKind):
    name = "mail"
    noun = "mail address"
    intro = "One plain message for each event, with a link to its page."
    fields = (Field("address", "Mail address"),)

    def check(self, values: Mapping[str, str]) -> None:
        mail.check()
        address = values["address"]
        try:
            validate_email(address)
            is_usable = address.isprintable()  # a quoted name can have control characters, which end a header line
            address.rpartition("@")[2].encode("idna")
        except (ValidationError, UnicodeError):
            is_usable = False
        if not is_usable:
            hint = "accepted: an address such as ada@example.org"
            raise PlanError("address", f"{address!r} is not a mail address", hint=hint)

    def send(self, delivery: Delivery) -> None:
        parts = message(delivery)
        text = f"{parts['text'] or parts['subject']}\n\n{parts['url']}\n"
        mail.send(delivery.channel.address, delivery.subject, text, str(delivery.pk))

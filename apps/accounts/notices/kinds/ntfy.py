"""ntfy: a push notification to those who subscribe to a topic, on ntfy.sh or a server of one's own.

Source: https://docs.ntfy.sh/publish/#publish-as-json. With JSON, no text of a user becomes an HTTP header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from apps.accounts.notices import posting
from apps.accounts.notices.kinds.base import ChannelKind, Field, message
from common.errors import PlanError

if TYPE_CHECKING:
    from apps.accounts.models import Delivery

_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HIGH = frozenset({"campaign.failed", "host.quarantined", "host.unreachable", "host.unfit"})
_MESSAGE_BYTES = 3500  # ntfy refuses a message of more than 4,096 bytes, or a body of more than twice as many


class Ntfy(ChannelKind):
    name = "ntfy"
    noun = "ntfy topic"
    intro = "One push notification for each event, with a link to its page, on phones and desktops."
    fields = (
        Field("address", "URL of the server", "https://ntfy.sh or your own server, in an allowed network"),
        Field("topic", "Topic", "such as proving-4f1c; without a token, anyone who knows its name can read it"),
        Field(
            "access_token",
            "Access token",
            "begins with tk_; empty if the topic needs none",
            secret=True,
            required=False,
        ),
    )
    for_admins = True

    def check(self, values: Mapping[str, str]) -> None:
        parts = posting.resolve_url(values["address"])
        if parts.path.strip("/") or parts.query:
            hint = "use a URL such as https://ntfy.sh, and enter the topic in its own field"
            raise PlanError("address", "the URL of a ntfy server has no path and no query", hint=hint)
        if not _TOPIC.fullmatch(values["topic"]):
            hint = "accepted: up to 64 letters, digits, - and _"
            raise PlanError("details.topic", f"{values['topic']!r} is not a topic", hint=hint)

    def send(self, delivery: Delivery) -> int:
        channel, parts = delivery.channel, message(delivery)
        body = {
            "topic": channel.details["topic"],
            "title": parts["subject"],
            "message": (parts["text"] or parts["subject"]).encode()[:_MESSAGE_BYTES].decode(errors="ignore"),
            "priority": 4 if delivery.kind in _HIGH else 3,
            "tags": [*(["warning"] if delivery.kind in _HIGH else []), delivery.kind],
            "click": parts["url"],
        }
        headers = {"Content-Type": "application/json", "User-Agent": "Proving-Ground"}
        if channel.secret_encrypted:
            headers["Authorization"] = f"Bearer {channel.decrypt_secret()}"
        return posting.post(channel.address, json.dumps(body, ensure_ascii=False).encode(), headers)

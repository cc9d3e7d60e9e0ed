"""Signed webhooks: JSON for programs, with a signature that proves who sends."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from apps.accounts.notices import posting
from apps.accounts.notices.kinds.base import ChannelKind, Field, message

if TYPE_CHECKING:
    from apps.accounts.models import Delivery


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """What X-Proving-Signature says: HMAC-SHA256 over the timestamp, a dot and the body."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


class Webhook(ChannelKind):
    name = "webhook"
    noun = "webhook"
    intro = "JSON is posted for each event, signed with a secret that is shown once."
    fields = (Field("address", "URL", "receives the JSON; the server must be in an allowed network"),)
    for_admins = signed = True

    def check(self, values: Mapping[str, str]) -> None:
        posting.resolve_url(values["address"])

    def send(self, delivery: Delivery) -> int:
        channel, body = delivery.channel, json.dumps(message(delivery), ensure_ascii=False).encode()
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Proving-Ground",
            "X-Proving-Delivery": str(delivery.pk),
            "X-Proving-Event": delivery.kind,
            "X-Proving-Timestamp": timestamp,
            "X-Proving-Signature": sign(channel.decrypt_secret(), timestamp, body),
        }
        return posting.post(channel.address, body, headers)

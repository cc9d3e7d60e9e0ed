"""Chat: a message through an incoming webhook of Slack, Mattermost or Rocket.Chat, which all take {"text": ...}.

Source: https://api.slack.com/messaging/webhooks and https://docs.mattermost.com/developer/webhooks-incoming.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from apps.accounts.notices import posting
from apps.accounts.notices.kinds.base import ChannelKind, Field, message

if TYPE_CHECKING:
    from apps.accounts.models import Delivery

# Users type the names of campaigns and hosts. No name may notify a whole channel, or become a link or an image of
# Markdown. Mattermost ignores the case of mentions.
_EVERYBODY = re.compile(r"@(?=(?:all|channel|everyone|here)\b)", re.IGNORECASE)
_LINK = re.compile(r"\](?=[(\[:])")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def plain(text: str) -> str:
    """Text that a chat shows as it is."""
    escaped = re.sub(r"[&<>]", lambda match: _ESCAPES[match[0]], text)
    return _LINK.sub("]\u200b", _EVERYBODY.sub("@\u200b", escaped))


class Chat(ChannelKind):
    name = "chat"
    noun = "chat"
    intro = "One message for each event, with a link to its page, in Slack, Mattermost or Rocket.Chat."
    fields = (
        Field(
            "address",
            "URL of the incoming webhook",
            "from the settings of the chat channel; its server must be in an allowed network",
        ),
    )
    for_admins = True

    def check(self, values: Mapping[str, str]) -> None:
        posting.resolve_url(values["address"])

    def send(self, delivery: Delivery) -> int:
        parts = message(delivery)
        lines = [plain(parts["subject"]), plain(parts["text"]), parts["url"]]
        body = json.dumps({"text": "\n".join(line for line in lines if line)}, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "Proving-Ground"}
        return posting.post(delivery.channel.address, body, headers)

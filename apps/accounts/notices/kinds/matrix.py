"""Matrix: a message in a room, sent by a user of the homeserver with an access token.

Source: https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from apps.accounts.notices import posting
from apps.accounts.notices.kinds.base import ChannelKind, Field, message
from common.errors import PlanError

if TYPE_CHECKING:
    from apps.accounts.models import Delivery

_ROOM = re.compile(r"!\S{1,254}")


class Matrix(ChannelKind):
    name = "matrix"
    noun = "Matrix room"
    intro = "One message for each event, with a link to its page, in a room of a Matrix homeserver."
    fields = (
        Field("address", "URL of the homeserver", "such as https://matrix.example.org, in an allowed network"),
        Field("room", "Room ID", "such as !abc:example.org, from the room's advanced settings"),
        Field("access_token", "Access token", "of a user who has joined the room", secret=True),
    )
    for_admins = True

    def check(self, values: Mapping[str, str]) -> None:
        if posting.resolve_url(values["address"]).query:
            raise PlanError(
                "address", "a homeserver's URL has no query", hint="use a URL such as https://matrix.example.org"
            )
        if not _ROOM.fullmatch(values["room"]):
            hint = "a room ID begins with !, such as !abc:example.org; an alias (#...) is not accepted"
            raise PlanError("details.room", f"{values['room']!r} is not a room ID", hint=hint)

    def send(self, delivery: Delivery) -> int:
        """The homeserver drops a second request with the same delivery."""
        channel, parts = delivery.channel, message(delivery)
        lines = filter(None, (parts["subject"], parts["text"], parts["url"]))
        # Empty mentions: without them, clients notify the room or users that the text names.
        body = {"msgtype": "m.text", "body": "\n".join(lines), "m.mentions": {}}
        room = quote(channel.details["room"], safe="")
        path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{delivery.pk}"
        headers = {
            "Authorization": f"Bearer {channel.decrypt_secret()}",
            "Content-Type": "application/json",
            "User-Agent": "Proving-Ground",
        }
        url = channel.address.rstrip("/") + path
        return posting.send("PUT", url, json.dumps(body, ensure_ascii=False).encode(), headers)

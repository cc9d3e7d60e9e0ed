"""The kinds of channels: one file each, and one line each in CHANNELS."""

from __future__ import annotations

from apps.accounts.notices.kinds.base import ChannelKind
from apps.accounts.notices.kinds.chat import Chat
from apps.accounts.notices.kinds.mail import Mail
from apps.accounts.notices.kinds.matrix import Matrix
from apps.accounts.notices.kinds.ntfy import Ntfy
from apps.accounts.notices.kinds.webhook import Webhook

CHANNELS: dict[str, ChannelKind] = {kind.name: kind for kind in (Mail(), Chat(), Matrix(), Ntfy(), Webhook())}

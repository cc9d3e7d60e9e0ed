"""The template library `states`: how pages show the states of all apps."""

from __future__ import annotations

from django import template

from common.wording import host_state

register = template.Library()
DASH = "\u2013"
# State or outcome -> css class and symbol: colour is never the only sign.
SIGNS = {
    "ok": ("good", "✓"),
    "ready": ("good", "✓"),
    "finished": ("good", "✓"),
    "accepted": ("good", "✓"),
    "sent": ("good", "✓"),
    "pending": ("idle", "○"),
    "active": ("good", "✓"),
    "stopped": ("bad", "✕"),
    "deleted": ("idle", DASH),
    "starting": ("live", "●"),
    "started": ("good", "✓"),
    "skipped": ("idle", DASH),
    "missed": ("bad", "!"),
    "refused": ("bad", "✕"),
    "pristine": ("good", "✓"),
    "preparing": ("live", "●"),
    "running": ("live", "●"),
    "submitting": ("live", "●"),
    "queued": ("idle", "○"),
    "paused": ("idle", "Ⅱ"),
    "draft": ("idle", "○"),
    "archive": ("idle", DASH),
    "new": ("idle", "○"),
    "proposed": ("idle", "○"),
    "cancelled": ("idle", DASH),
    "superseded": ("idle", DASH),
    "expired": ("bad", "!"),
    "contradicted": ("bad", "✕"),
    "stale": ("bad", "!"),
    "same": ("good", "✓"),
    "differs": ("bad", "≠"),
    "not comparable": ("idle", "?"),
    "confirmed": ("good", "✓"),
    "renewed": ("good", "✓"),
    "fresh": ("good", "✓"),
    "confirming": ("live", "●"),
    "interrupted": ("bad", "!"),
    "doubtful": ("idle", "?"),
    "failed": ("bad", "✕"),
    "not_in_effect": ("bad", "≠"),
    "inconsistent": ("bad", "≠"),
    "unreachable": ("bad", "!"),
    "unfit": ("bad", "!"),
    "quarantined": ("bad", "✕"),
    "rejected": ("bad", "✕"),
    "withdrawn": ("idle", DASH),
    "held": ("good", "✓"),
    "put_back": ("good", "✓"),
    "drifted": ("bad", "↯"),
    "conflict": ("bad", "⇄"),
    "left_alone": ("bad", "⇄"),
    "not_put_back": ("bad", "✕"),
    "dirty": ("bad", "✕"),
    "unproven": ("idle", "?"),
    "nothing": ("idle", DASH),
    "open": ("live", "●"),
    "asked": ("idle", "○"),
    "measured": ("idle", "·"),
    "unstable": ("bad", "↯"),
    "breaks_limit": ("bad", "⊘"),
    "ended": ("idle", DASH),
    "done": ("good", "✓"),
    "offered": ("idle", "○"),
    "pinned": ("good", "✓"),
    "current": ("good", "✓"),
    "next": ("idle", "○"),
    "retired": ("idle", DASH),
}


@register.filter
def state_word(state: str) -> str:
    """What a state is called on a page: not ready, for a host that is unfit."""
    return host_state(str(state))


@register.filter
def sign_class(state: str) -> str:
    return SIGNS.get(str(state), ("idle", ""))[0]


@register.filter
def sign(state: str) -> str:
    return SIGNS.get(str(state), ("idle", "○"))[1]

"""What a host has of what was decided: value by value, as far as anybody can tell. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from apps.tuning.effects import COMMANDS, Item, dry_run

SAME, DIFFERS, UNKNOWN = "same", "differs", "cannot tell"
# What the agent reads outside of runs are files of the kernel.
UNREAD = {
    "conf": "PostgreSQL's configuration is read during runs only",
    "initdb": "it was given when the cluster was made",
    "hold": "a process keeps it for as long as it lives",
    "act": "it is done before a server starts",
    "sql": "it is said to a running server",
    **dict.fromkeys(COMMANDS, "how a program was started is seen during runs only"),
}


@dataclass(frozen=True)
class Row:
    """One value; `found` is None, and `why` says so, where it cannot be told."""

    setting: str
    key: str
    decided: str
    found: str | None
    state: str
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def rows(facts: Mapping[str, Any], settings: Mapping[str, Any], live: Mapping[str, Any] | None = None) -> list[Row]:
    """Of a host by its facts, or with what its agent answered to discover now."""
    return [_row(item) for item in dry_run(facts, settings, live).items]


def _row(item: Item) -> Row:
    why = UNREAD.get(item.kind, "")
    if not why and item.wanted.startswith("$("):
        why = "it hangs on the server that is configured"
    if not why and item.present is None:
        why = "the host's facts do not have it: ask the host"
    if why:
        return Row(item.setting, item.key, item.wanted, None, UNKNOWN, why)
    return Row(item.setting, item.key, item.wanted, item.present, SAME if item.same else DIFFERS)


def state(found: list[Row]) -> str:
    """Of a whole host: one value that differs is enough, and one that nobody can tell leaves it open."""
    states = {row.state for row in found}
    return next((each for each in (DIFFERS, UNKNOWN) if each in states), SAME)

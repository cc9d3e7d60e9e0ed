"""What is on this host now, of settings that somebody thinks of changing. Reads only."""

from __future__ import annotations

from typing import Any

from ..errors import Failure, PlanFailure
from ..host.system import System
from ..settings import SETTINGS, Plan
from ..settings.base import current
from .planning import plan_settings

Record = dict[str, Any]


def look(system: System, facts: Record, name: str, wanted: Any) -> Record:
    """{"value", "keys", "refused"} of a setting as in protocol.py; `wanted` None asks for the value alone."""
    if name not in SETTINGS:
        raise PlanFailure(f"settings.{name} is not known here", f"known: {', '.join(SETTINGS)}")
    plan, refused = Plan(), None
    if wanted is not None:
        try:
            plan = plan_settings(facts, {name: wanted})[name]
        except Failure as failure:
            refused = failure.as_json()
    keys = [key for write in plan.writes for key in (write.key, *write.also)]
    return {"value": SETTINGS[name].discover(system), "keys": _read(system, keys), "refused": refused}


def _read(system: System, keys: list[str]) -> dict[str, str]:
    """What each file reads; one that cannot be read is left out, as applying it will say why."""
    found = {}
    for key in keys:
        try:
            found[key] = current(system, key)
        except OSError:
            continue
    return found

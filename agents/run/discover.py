"""The present values of settings on this host. Reads only."""

from __future__ import annotations

from typing import Any

from ..errors import Failure, PlanFailure
from ..host.system import System
from ..settings import SETTINGS, Plan
from ..settings.base import current
from .planning import plan_settings

Record = dict[str, Any]


def read_setting(system: System, facts: Record, name: str, requested: Any) -> Record:
    """{"value", "keys", "refused"} of a setting as in protocol.py; `requested` None reads the value alone."""
    if name not in SETTINGS:
        raise PlanFailure(f"settings.{name} is not known here", f"known: {', '.join(SETTINGS)}")
    plan, refused = Plan(), None
    if requested is not None:
        try:
            plan = plan_settings(facts, {name: requested})[name]
        except Failure as failure:
            refused = failure.as_json()
    keys = [key for write in plan.writes for key in (write.key, *write.also)]
    return {"value": SETTINGS[name].discover(system), "keys": _read(system, keys), "refused": refused}


def _read(system: System, keys: list[str]) -> dict[str, str]:
    """Read each file. Unreadable ones are left out, because applying the setting reports the reason."""
    values = {}
    for key in keys:
        try:
            values[key] = current(system, key)
        except OSError:
            continue
    return values

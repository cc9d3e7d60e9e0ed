"""Judge the health of a host from the report of its agent. Pure: rows in the form of Host.health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
MIB = 1024
MAX_NAMED = 5  # runs in a row


@dataclass(frozen=True)
class Limits:
    """Limits from the environment; see docs/operations/production.md."""

    free_mib: int
    clock_s: float
    celsius: float


@dataclass(frozen=True)
class Clock:
    """The offset of the host's clock, positive if it is ahead, with its uncertainty `error_s`: half of the round
    trip."""

    ahead_s: float
    error_s: float


def clock(asked_at: float, host_time: float, answered_at: float) -> Clock:
    """Compute the offset from our clock before and after the request, and the host's time in the reply; seconds
    since 1970."""
    return Clock(host_time - (asked_at + answered_at) / 2, (answered_at - asked_at) / 2)


def health_rows(reported: Mapping[str, Any], hello: Mapping[str, Any], at: Clock, limits: Limits) -> list[Row]:
    """Return a row for each check. "wanted" is empty if the row is only for information."""
    return [
        *(_space(each, limits) for each in reported["space"]),
        _clock(at, limits),
        _left(hello["dirty"], "values that were not restored", "nothing"),
        _left(hello["conflicts"], "conflicts with values of other users", ""),
        _units(hello["units"]),
        *([_heat(reported["celsius"], limits)] if reported["celsius"] is not None else []),
        _row("restart of the host", True, "is due" if reported["restart_due"] else "not due", ""),
        _row("failed units of systemd", True, ", ".join(reported["failed_units"]) or "none", ""),
    ]


def _row(check: str, ok: bool, actual: str, expected: str) -> Row:
    return {"check": check, "ok": ok, "found": actual, "wanted": expected}


def _space(space: Mapping[str, Any], limits: Limits) -> Row:
    free = space["free_kb"]
    actual = "unknown" if free is None else f"{free / MIB:,.0f} MiB"
    enough = free is None or free >= limits.free_mib * MIB
    return _row(f"free space for {space['path']}", enough, actual, f"at least {limits.free_mib:,} MiB")


def _clock(at: Clock, limits: Limits) -> Row:
    side = "ahead of" if at.ahead_s > 0 else "behind"
    actual = f"{abs(at.ahead_s):.2f} s {side} the server's clock, within {at.error_s:.2f} s"
    return _row(
        "clock", abs(at.ahead_s) - at.error_s <= limits.clock_s, actual, f"at most {limits.clock_s:g} s difference"
    )


def _left(runs: Sequence[str], what: str, expected: str) -> Row:
    more = f" and {len(runs) - MAX_NAMED:,} more" if len(runs) > MAX_NAMED else ""
    actual = ", ".join(f"of run {run[:8]}" for run in runs[:MAX_NAMED]) + more or "none"
    return _row(what, not (runs and expected), actual, expected and "none")


def _units(state: str) -> Row:
    """Check the systemd units. They are renewed at each contact, so outdated ones could not be renewed."""
    return _row("units of the agent", state != "outdated", state, "current" if state in ("current", "outdated") else "")


def _heat(celsius: float, limits: Limits) -> Row:
    expected = f"at most {limits.celsius:g} °C"
    return _row("hottest thermal zone", celsius <= limits.celsius, f"{celsius:.0f} °C", expected)


def failed(rows: Sequence[Mapping[str, Any]]) -> str:
    """The failed checks as one text; "" if there are none."""
    return "; ".join(f"{row['check']}: {row['found']}, needs {row['wanted']}" for row in rows if not row["ok"])


def at_once(hosts: int, every_s: float, beat_s: float) -> int:
    """Return how many hosts to check in one beat, so that all are checked in half of the time between two checks."""
    return max(1, -(-int(hosts * beat_s) // max(1, int(every_s / 2))))

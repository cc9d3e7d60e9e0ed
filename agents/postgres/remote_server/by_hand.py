"""Parameters that SQL cannot set: a run waits until a user has changed them, as in a provider's parameter group."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Protocol

from ...errors import HostFailure, WorkloadFailure
from ...records.spool import Record
from ...settings.postgresql import same
from . import settings
from .server import RemoteServer

POLL_S = 5.0


class Run(Protocol):
    """The run that waits."""

    @property
    def system(self) -> Any: ...

    def emit(self, kind: str, data: Record) -> None: ...

    def log(self, level: str, message: str) -> None: ...

    def enter(self, state: str) -> None: ...

    def check(self) -> None: ...


def wait(run: Run, server: RemoteServer, values: Mapping[str, str], limit_s: float) -> bool:
    """Wait until new sessions have these values. Returns whether one of them was missing. HostFailure after `limit_s`;
    `run.check` can end the wait earlier."""
    changes = _missing(server, values)
    if not changes:
        return False
    before, deadline = {each["name"]: each["found"] for each in changes}, run.system.mono() + limit_s
    run.emit("waiting", {"changes": changes, "limit_s": limit_s})
    run.enter("WAITING")
    while changes:
        if run.system.mono() >= deadline:
            listed = ", ".join(f"{each['name']} = {each['wanted']} (is {each['found']})" for each in changes)
            hint = "change it, restart the server if needed, and retry the run"
            raise HostFailure(f"not changed by hand within {limit_s:.0f} s: {listed}", hint)
        run.check()
        run.system.sleep(min(POLL_S, max(0.1, deadline - run.system.mono())))
        known = _missing_or_none(server, values)
        if known is not None and known != changes:
            changes = known
            run.emit("waiting", {"changes": changes, "limit_s": limit_s})
    run.enter("APPLYING")
    for name, value in before.items():
        run.log("info", f"{name} was changed by hand from {value} to {values[name]}; the run does not restore it")
    return True


def _missing(server: RemoteServer, values: Mapping[str, str]) -> list[Record]:
    """The remaining changes, each {"name", "wanted", "found", "pending_restart"}."""
    known = [(name, row) for name, row in settings.rows(server, list(values)).items() if row]
    return [
        {"name": name, "wanted": values[name], "found": row["show"], "pending_restart": row["pending_restart"]}
        for name, row in known
        if not same(name, values[name], row)
    ]


def _missing_or_none(server: RemoteServer, values: Mapping[str, str]) -> Optional[list[Record]]:
    """None while the server cannot be queried, as during its restart."""
    try:
        server.identify()
        return _missing(server, values)
    except (HostFailure, WorkloadFailure):
        return None

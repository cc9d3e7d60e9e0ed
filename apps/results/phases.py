"""The phases of a run, from the records of server and agent. Pure: the tables and the API both have what it reads.

Times are seconds since 1970. Those of events are by the clock of the host. They are moved by the least difference that
puts them between the start and the end of the run by the server's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

# In order, with what happens in each. A run need not have all of them.
PHASES = {
    "queue": "it is the run's turn: message to a dispatcher, claim, connection, greeting of the agent",
    "submit": "facts, and the agent accepts the run",
    "apply": "plans, originals, settings, configuration",
    "start": "PostgreSQL starts, and proofs before the load",
    "data": "the data set is made, copied or restored",
    "prepare": "caches, collectors",
    "measure": "the load generator",
    "verify": "totals of collectors, proofs after the load",
    "roll back": "PostgreSQL stops, settings are restored, proofs",
    "collect": "hashes and manifest on the host, transfer of files, end of the run",
}
RESTART, WAIT = "restart", "wait for a change by hand"
ORDER = list(PHASES)
OF_STEPS = ("data", "prepare", "measure")
# State of the agent -> the phase that ends when it begins.
STATES = {"APPLYING": "submit", "VERIFIED": "start", "RUNNING": "data", "CLEAN": "roll back", "DIRTY": "roll back"}
PAUSES = {"REBOOTING": RESTART, "WAITING": WAIT}
SERVER = "postgres"  # purpose of the command that starts the server


@dataclass(frozen=True)
class AgentEvent:
    """An event of an agent; agents/wire/protocol.py describes `data`."""

    kind: str
    at: float
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Phase:
    name: str
    began: float
    ended: float
    step: str = ""


@dataclass(frozen=True)
class _Mark:
    """The end of a phase; with name "", that of the phase that should be under way."""

    name: str
    at: float
    step: str = ""
    pause: str = ""  # the phase that begins here, out of order
    reached: str = ""  # the last phase of the order that is over; "": the one with this name


def phases_of(events: Sequence[AgentEvent], turn: float | None, started: float, ended: float) -> list[Phase]:
    """Return the phases of one job in order, without gaps.

    `turn`: when the run was the next of its host; None if unknown, and the first phase is then left out."""
    marks = [mark for event in events for mark in _marks(event)]
    begin = started if turn is None else min(turn, started)
    whole = [_Mark("queue", started), *_moved(marks, started, ended), _Mark("", ended)]
    return list(_joined(_between(begin, whole)))[turn is None :]


def shift_of(events: Sequence[AgentEvent], started: float, ended: float) -> float:
    """Return the seconds that are added to the times of the host."""
    return _shift([mark.at for event in events for mark in _marks(event)], started, ended)


def _marks(event: AgentEvent) -> Iterator[_Mark]:
    data = event.data
    if event.kind == "state":
        state, step = data["state"], data.get("step") or ""
        if state in STATES:
            yield _Mark(STATES[state], event.at, step)
        elif state in PAUSES:
            yield _Mark("", event.at, pause=PAUSES[state])
        elif state == "ROLLING_BACK":
            yield _Mark("", event.at, reached="verify")
    elif event.kind == "command" and data["purpose"] == SERVER:
        yield _Mark("apply", event.at)
    elif event.kind == "measuring":
        yield _Mark("prepare", data["began"], data["step"])
    elif event.kind == "measured":
        yield _Mark("measure", data["ended"], data["step"])


def _shift(times: Sequence[float], started: float, ended: float) -> float:
    if not times:
        return 0.0
    return max(started - min(times), 0.0) or min(ended - max(times), 0.0)


def _moved(marks: Sequence[_Mark], started: float, ended: float) -> Iterable[_Mark]:
    """Return marks by the server's clock, none before an earlier one: a host may have set its clock meanwhile."""
    shift, latest = _shift([mark.at for mark in marks], started, ended), started
    for mark in marks:
        latest = min(max(mark.at + shift, latest), ended)
        yield replace(mark, at=latest)


def _between(begin: float, marks: Iterable[_Mark]) -> Iterator[Phase]:
    """Yield the phases between the marks. In some runs the agent starts PostgreSQL again later, which is no phase."""
    last, pause = "", ""
    for mark in marks:
        if mark.name == "apply" and last != "submit":
            continue
        name = pause or mark.name or _following(last)
        yield Phase(name, begin, mark.at, mark.step if name in OF_STEPS else "")
        begin, last, pause = mark.at, mark.reached or mark.name or last, mark.pause


def _joined(phases: Iterable[Phase]) -> Iterator[Phase]:
    """Join phases of one name: the state RUNNING begins with the data set, and again with each step."""
    for _, same in groupby(phases, key=lambda phase: phase.name):
        parts = list(same)
        yield replace(parts[-1], began=parts[0].began)


def _following(last: str) -> str:
    """Return the phase after this one."""
    return ORDER[min(ORDER.index(last) + 1, len(ORDER) - 1)]

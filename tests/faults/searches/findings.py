"""The result of an audit of a search, without anything of the server: a program without its settings can import it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tests.faults.counts.findings import Found


@dataclass(frozen=True)
class SearchFindings:
    """Each finding is a sentence; an intact search has none."""

    trials: int
    rounds: int
    runs: int
    state: str
    lost: list[str]
    doubled: list[str]
    misattributed: list[str]
    events: Found

    @property
    def harms(self) -> list[str]:
        events = [f"{name}: {count} events or runs" for name, count in asdict(self.events).items() if name != "runs"]
        return [*self.lost, *self.doubled, *self.misattributed, *(event for event in events if ": 0 " not in event)]

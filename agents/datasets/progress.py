"""How far a making is and how long it still takes: from what pgbench prints, and what earlier steps took. Pure."""

from __future__ import annotations

import re
from typing import Optional, Sequence

from .base import Step

# 300000 of 1000000 tuples (30%)[ of pgbench_accounts] done (elapsed 0.36 s, remaining 0.85 s)
_ROWS = re.compile(r"^(\d+) of (\d+) tuples \(\d+%\)(?: of (\w+))? done \(elapsed ([\d.]+) s, remaining ([\d.]+) s\)")


def rows_of(line: str) -> Optional[tuple[int, int]]:
    """(rows done, rows in all) from a line of pgbench -i about its largest table; None for any other line."""
    match = _ROWS.match(line.strip())
    if not match or match.group(3) not in (None, "pgbench_accounts"):
        return None
    return int(match.group(1)), int(match.group(2))


class Estimate:
    """Of the whole, from the shares that its steps have of it; `done` are those with the seconds that they took."""

    def __init__(self, steps: Sequence[Step], done: dict[str, float]) -> None:
        self._steps, self.done = steps, done

    def tell(self, step: Step, elapsed: float, fraction: Optional[float]) -> tuple[float, Optional[float]]:
        """(completed share, remaining seconds) of a step; `fraction`: its completed share, if that is reported. None
        while the remaining time cannot be estimated."""
        share, took = self._past()
        total = self._total_of(step, elapsed, fraction, took / share if share else None)
        all_of_it = sum(each.share for each in self._steps) or 1.0
        if total is None:
            return min(1.0, share / all_of_it), None
        within = min(1.0, elapsed / total) if total else 1.0
        later = sum(each.share for each in self._steps if each.name not in self.done and each is not step)
        pace = (took + total) / (share + step.share) if share + step.share else 0.0
        return min(1.0, (share + step.share * within) / all_of_it), max(0.0, total - elapsed) + pace * later

    def _past(self) -> tuple[float, float]:
        share = sum(each.share for each in self._steps if each.name in self.done)
        return share, sum(self.done.values())

    @staticmethod
    def _total_of(step: Step, elapsed: float, fraction: Optional[float], pace: Optional[float]) -> Optional[float]:
        if fraction:
            return elapsed / fraction
        if pace is not None:
            return max(elapsed, pace * step.share)
        return None

"""How a search spends its runs: which candidates run again, how many new ones join them, which are confirmed. Pure.

Every block has a run of the default and one of each candidate. A quarter of a round's places, at least one, goes to the
best candidates so far, until they have MOST_ROUNDS rounds; the others go to new ones. In the last round, the best run
again. The runs of the confirmation are set aside from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stats.stopping.racing import Standing

MOST_ROUNDS = 8
SHARE_AGAIN = 4  # one of so many places


@dataclass(frozen=True)
class Sizes:
    """`candidates` of a round beside the default, `blocks` of a round, `finalists` and blocks of the confirmation."""

    candidates: int
    blocks: int
    finalists: int
    confirmation_blocks: int

    @property
    def most_blocks(self) -> int:
        """Of one candidate, in all rounds."""
        return MOST_ROUNDS * self.blocks

    def round_runs(self, candidates: int) -> int:
        return self.blocks * (1 + candidates)

    def confirmation_runs(self, finalists: int | None = None) -> int:
        return self.confirmation_blocks * (1 + (self.finalists if finalists is None else finalists))

    @property
    def least_runs(self) -> int:
        """The smallest budget that makes sense: one round, and the confirmation."""
        return self.round_runs(self.candidates) + self.confirmation_runs()


@dataclass(frozen=True)
class Round:
    """Numbers of the trials that run again, and how many new ones run beside them."""

    again: list[int]
    new: int


def next_round(sizes: Sizes, standings: Mapping[int, Standing], left_runs: int, waiting: int = 0) -> Round | None:
    """None if the runs that are left are needed for the confirmation. `standings`: of trials that are neither bad nor
    unstable; `waiting`: trials of an earlier round that have no result yet."""
    free = left_runs - sizes.confirmation_runs()
    places = min(sizes.candidates, free // sizes.blocks - 1)
    if places < 1:
        return None
    is_last = free - sizes.round_runs(places) < sizes.round_runs(1)
    best = [number for number in ranked(standings) if standings[number].blocks < sizes.most_blocks]
    again = best[: places if is_last else max(1, places // SHARE_AGAIN) if places > 1 else 0]
    return Round(again, max(0, places - len(again) - waiting))


def ranked(standings: Mapping[int, Standing]) -> list[int]:
    """Those above the default so far, the best first."""
    above = [number for number, each in standings.items() if each.mean > 0]
    return sorted(above, key=lambda number: (-standings[number].mean, number))


def finalists(sizes: Sizes, standings: Mapping[int, Standing]) -> list[int]:
    """The best few, by the lower ends of their intervals; those without one only if no other is above the default."""
    above = ranked(standings)
    tested = [number for number in above if standings[number].low is not None]
    chosen = sorted(tested, key=lambda number: (-(standings[number].low or 0.0), number)) or above
    return chosen[: sizes.finalists]

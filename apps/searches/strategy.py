"""How a search spends its runs: which candidates run again, how many new ones join them, which are confirmed. Pure.

Every block has a run of the default and one of each candidate. A quarter of a round's candidates, at least one, are the
best so far, until they have MOST_ROUNDS rounds; the others are new. In the last round, only the best run. The runs of
the confirmation are reserved from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stats.comparison.pareto import Front, ends
from stats.stopping.racing import CandidateStanding

MOST_ROUNDS = 8
SHARE_AGAIN = 4  # one of four candidates of a round runs again


@dataclass(frozen=True)
class Sizes:
    """`candidates` of a round beside the default, `blocks` of a round, `finalists` and blocks of the confirmation, and
    the number of `hosts` that run each block."""

    candidates: int
    blocks: int
    finalists: int
    confirmation_blocks: int
    hosts: int = 1

    @property
    def most_blocks(self) -> int:
        """The most blocks of one candidate in all rounds."""
        return MOST_ROUNDS * self.blocks * self.hosts

    def round_runs(self, candidates: int) -> int:
        return self.hosts * self.blocks * (1 + candidates)

    def confirmation_runs(self) -> int:
        return self.hosts * self.confirmation_blocks * (1 + self.finalists)

    @property
    def least_runs(self) -> int:
        """The smallest budget: one round and the confirmation."""
        return self.round_runs(self.candidates) + self.confirmation_runs()


@dataclass(frozen=True)
class NextRound:
    """Numbers of the earlier trials that run, and the number of new ones that run beside them."""

    earlier: list[int]
    new: int


def next_round(
    sizes: Sizes,
    standings: Mapping[int, CandidateStanding],
    left_runs: int,
    waiting: Sequence[int] = (),
    front: Front[int] | None = None,
) -> NextRound | None:
    """None if the remaining runs are needed for the confirmation. `standings`: trials that are neither bad nor
    unstable; `waiting`: trials of earlier rounds that have no result yet; `front`: of a search with two metrics."""
    free_runs = left_runs - sizes.confirmation_runs()
    count = min(sizes.candidates, free_runs // sizes.round_runs(0) - 1)
    if count < 1:
        return None
    order = ranked(standings) if front is None else _least_known(front, standings)
    best = [number for number in order if standings[number].blocks < sizes.most_blocks]
    earlier = [*best[: _again(sizes, count, free_runs)], *waiting][:count]
    return NextRound(earlier, count - len(earlier))


def _again(sizes: Sizes, count: int, free_runs: int) -> int:
    """How many of the `count` candidates of a round may be the best of earlier rounds: in the last round, all."""
    if free_runs - sizes.round_runs(count) < sizes.round_runs(1):
        return count
    return max(1, count // SHARE_AGAIN) if count > 1 else 0


def ranked(standings: Mapping[int, CandidateStanding]) -> list[int]:
    """Trials that are above the default so far, best first."""
    above = [number for number, each in standings.items() if each.mean > 0]
    return sorted(above, key=lambda number: (-standings[number].mean, number))


def _least_known(front: Front[int], standings: Mapping[int, CandidateStanding]) -> list[int]:
    """The trials of the Pareto front, those with the fewest blocks first."""
    return sorted(front.best, key=lambda number: (standings[number].blocks, number))


def finalists(sizes: Sizes, standings: Mapping[int, CandidateStanding], front: Front[int] | None = None) -> list[int]:
    """The best trials by the lower bounds of their intervals. Trials without an interval only if no other is above the
    default. With two metrics, the ends of the Pareto front."""
    if front is not None:
        return ends(front, {number: standings[number].blocks for number in front.best}, sizes.finalists)
    above = ranked(standings)
    tested = [number for number in above if standings[number].low is not None]
    chosen = sorted(tested, key=lambda number: (-(standings[number].low or 0.0), number)) or above
    return chosen[: sizes.finalists]

"""Random numbers of pgbench, and the ranks of values that SQL makes of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.campaigns.twins.columns import Domain
from apps.campaigns.twins.names import OWN_SCHEMA

FINE = 1_000_000_000  # steps of a share


@dataclass
class Script:
    """The random numbers of a statement. `most`: the largest possible value of each."""

    most: list[int] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return [f"\\set twin_{number} random(1, {most})" for number, most in enumerate(self.most, start=1)]

    def random(self, most: int) -> str:
        """A new variable with a random number from 1 to `most`, as a statement refers to it."""
        self.most.append(most)
        return f":twin_{len(self.most)}"

    def rank(self, of: Domain) -> str:
        """A random rank. Frequent values are drawn more often."""
        if not of.is_skewed:
            return self.random(of.distinct)
        return f"{OWN_SCHEMA}.rank_{of.number}({self.random(FINE)} / {FINE}.0)"

"""Commands of pgbench that draw the rank of a value. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.campaigns.twins.columns import Domain

FINE = 1_000_000_000  # steps of a share


@dataclass
class Script:
    """Lines that set the variables of a statement."""

    lines: list[str] = field(default_factory=list)

    def set(self, expression: str) -> str:
        """A new variable with this value, as a statement refers to it."""
        name = f"twin_{len(self.lines) + 1}"
        self.lines.append(f"\\set {name} {expression}")
        return f":{name}"

    def rank(self, of: Domain, by_frequency: float = 1.0) -> str:
        """A random rank. With the probability `by_frequency`, frequent values are drawn more often; else equally."""
        most = min(len(of.frequencies), of.distinct)
        if not most or by_frequency <= 0:
            return self.set(f"random(1, {of.distinct})")
        share, cases, total = self.set(f"random(1, {FINE})"), [], 0.0
        for rank, frequency in enumerate(of.frequencies[:most], start=1):
            total += frequency
            cases.append(f"when {share} <= {round(min(1.0, total) * FINE)} then {rank}")
        rest = f"random({min(most + 1, of.distinct)}, {of.distinct})"
        if by_frequency < 1:
            evenly = f"when random(1, {FINE}) > {round(by_frequency * FINE)} then random(1, {of.distinct})"
            cases.insert(0, evenly)
        return self.set(f"case {' '.join(cases)} else {rest} end")


def rows_by_frequency(of: Domain, rows: float) -> float:
    """Mean number of rows with the drawn value, if values are drawn as often as they occur."""
    known, most = of.frequencies, len(of.frequencies)
    others = max(0.0, 1 - of.covered) ** 2 / (of.distinct - most) if of.distinct > most else 0.0
    return rows * (1 - of.null_frac) * (sum(each * each for each in known) + others)


def rows_evenly(of: Domain, rows: float) -> float:
    """The same, if all values are drawn equally often."""
    return rows * (1 - of.null_frac) / of.distinct


def weight(of: Domain, rows: float, per_call: float) -> float:
    """The probability of drawing by frequency that results in about so many rows per call."""
    most, least = rows_by_frequency(of, rows), rows_evenly(of, rows)
    return 1.0 if most <= least * 1.001 else max(0.0, min(1.0, (per_call - least) / (most - least)))

"""A scenario: simulated campaigns with a known truth, and the product's verdicts."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tests.truth.conservative import CONSERVATIVE

FALSE_AT_MOST = 0.06
COVERS = (0.94, 0.965)


@dataclass(frozen=True)
class Trial:
    """Verdicts of the product on one simulated campaign; None if the scenario does not test them. `false`: it claims a
    difference without one. `covers`: all its 95 % intervals contain the truth. `finds`: it claims the real difference,
    in the right direction. `advice`: as `finds`, with the number of runs that it advised."""

    false: bool | None = None
    covers: bool | None = None
    finds: bool | None = None
    advice: bool | None = None


@dataclass(frozen=True)
class Limits:
    """What the shares of a scenario must keep; `finds` and `advice` are None where any share will do."""

    false: float = FALSE_AT_MOST
    covers: tuple[float, float] = COVERS
    finds: float | None = None
    advice: float | None = None


@dataclass(frozen=True)
class Scenario:
    """`campaigns`: number for the published table; `quick`: number in tests. `open`: a known defect, whose limits are
    not tested."""

    name: str
    trial: Callable[[np.random.Generator], Trial]
    campaigns: int = 4000
    quick: int = 40
    limits: Limits = Limits()
    open: bool = False


@dataclass(frozen=True)
class Share:
    """Of so many campaigns, with its Monte Carlo standard error."""

    share: float
    of: int

    @property
    def error(self) -> float:
        # One that never or always happens has an error, too: that of half a campaign.
        within = min(max(self.share, 0.5 / self.of), 1 - 0.5 / self.of)
        return math.sqrt(within * (1 - within) / self.of)


@dataclass(frozen=True)
class Measured:
    """The shares of a scenario."""

    false: Share | None = None
    covers: Share | None = None
    finds: Share | None = None
    advice: Share | None = None

    @property
    def campaigns(self) -> int:
        return max((share.of for share in vars(self).values() if share), default=0)

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def read_measured(data: dict[str, Any]) -> Measured:
    """What Measured.as_dict wrote."""
    return Measured(**{name: Share(**share) for name, share in data.items()})


def simulate(scenario: Scenario, campaigns: int) -> Measured:
    """The shares of so many campaigns, seeded by the scenario's name: the same figures each time."""
    rng = np.random.default_rng(zlib.crc32(scenario.name.encode()))
    return shares(scenario.trial(rng) for _ in range(campaigns))


def shares(trials: Iterable[Trial]) -> Measured:
    rows = list(trials)
    return Measured(**{each.name: _share([getattr(row, each.name) for row in rows]) for each in fields(Trial)})


def _share(answers: list[bool | None]) -> Share | None:
    answered = [bool(answer) for answer in answers if answer is not None]
    return Share(round(sum(answered) / len(answered), 5), len(answered)) if answered else None


def broken(scenario: Scenario, measured: Measured, errors: float = 3.0) -> list[str]:
    """Which limits the shares break by more than so many of their standard errors. Conservative scenarios may cover
    more."""
    limits = scenario.limits
    least = {"covers": limits.covers[0], "finds": limits.finds, "advice": limits.advice}
    most = {"false": limits.false, "covers": 1.0 if scenario.name in CONSERVATIVE else limits.covers[1]}
    shares_ = {name: value for name, value in vars(measured).items() if value}
    low = [
        f"{name} {share.share:.3f} < {least[name]}"
        for name, share in shares_.items()
        if least.get(name) is not None and share.share + errors * share.error < (least[name] or 0.0)
    ]
    high = [
        f"{name} {share.share:.3f} > {most[name]}"
        for name, share in shares_.items()
        if name in most and share.share - errors * share.error > most[name]
    ]
    return low + high

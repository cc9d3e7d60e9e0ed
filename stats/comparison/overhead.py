"""What each traced event costs: runs with the tracer against runs without it, per event that it saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import PlanError
from stats.comparison.pairs import Estimate, t_estimate
from stats.model import POINTS_ONLY_BELOW, PRELIMINARY_BELOW, Interval, figure

NS_PER_MS = 1e6


@dataclass(frozen=True)
class Timed:
    """One run: how long what was traced took (an execution, a transaction), and how many events fell into it."""

    block: int
    ms: float
    events: float = 0.0


@dataclass(frozen=True)
class Overhead:
    """`ns` per event is (with_ms - without_ms) / events; its 95 % interval is None below 3 runs of each."""

    with_ms: float
    without_ms: float
    events: float
    ns: float
    n_with: int
    n_without: int
    method: str
    interval: Interval | None = None

    @property
    def preliminary(self) -> bool:
        return POINTS_ONLY_BELOW <= min(self.n_with, self.n_without) < PRELIMINARY_BELOW

    def sentence(self) -> str:
        """With all its numbers, as far as the runs carry it."""
        runs = f"{self.n_with} and {self.n_without} runs" if self.n_with != self.n_without else _runs(self.n_with)
        text = (
            f"tracer overhead: ({figure(self.with_ms)} - {figure(self.without_ms)} ms) / {figure(self.events)} events "
            f"= {figure(self.ns)} ns per event"
        )
        if self.interval is None:
            return f"{text}, from {runs}: an interval needs at least 3 runs of each."
        low, high = self.interval
        with_interval = f"{text} (95 % CI {figure(low)} to {figure(high)} ns, {runs}, {self.method})"
        doubt = "; the interval includes 0" if low <= 0 <= high else ""
        return f"{'preliminary: ' if self.preliminary else ''}{with_interval}{doubt}."


def _runs(count: int) -> str:
    return "one run of each" if count == 1 else f"{count} runs of each"


def overhead(traced: Sequence[Timed], untraced: Sequence[Timed]) -> Overhead:
    """PlanError where either has no run, or the tracer saw no event. Within blocks where both ran once in each."""
    if not traced or not untraced:
        raise PlanError(
            "runs", "there is no successful run to compare", hint="wait for one with the tracer and one without"
        )
    events = float(np.mean([run.events for run in traced]))
    if not events > 0:
        raise PlanError("tracer", "the tracer recorded no events", hint="trace events that the load causes")
    with_ms, without_ms = (float(np.mean([run.ms for run in runs])) for runs in (traced, untraced))
    ns = NS_PER_MS * (with_ms - without_ms) / events
    estimate = _estimate(traced, untraced, events)
    interval = estimate.interval if estimate else None
    method = estimate.method if estimate else "difference of means"
    return Overhead(with_ms, without_ms, events, ns, len(traced), len(untraced), method, interval)


def _estimate(traced: Sequence[Timed], untraced: Sequence[Timed], events: float) -> Estimate | None:
    if min(len(traced), len(untraced)) < POINTS_ONLY_BELOW:
        return None
    a = {run.block: NS_PER_MS * run.ms / events for run in untraced}
    b = {run.block: NS_PER_MS * run.ms / events for run in traced}
    if a.keys() == b.keys() and len(a) == len(untraced) == len(traced):
        differences = np.array([b[block] - a[block] for block in a])
        n, s = len(differences), float(differences.std(ddof=1))
        return t_estimate(float(differences.mean()), s / math.sqrt(n), n - 1, s, "paired t within blocks", paired=True)
    return _welch([NS_PER_MS * run.ms / events for run in untraced], [NS_PER_MS * run.ms / events for run in traced])


def _welch(a: Sequence[float], b: Sequence[float]) -> Estimate:
    errors = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    se, shared = math.sqrt(sum(errors)), errors[0] ** 2 / (len(a) - 1) + errors[1] ** 2 / (len(b) - 1)
    df = sum(errors) ** 2 / shared if shared else len(a) + len(b) - 2
    return t_estimate(float(np.mean(b) - np.mean(a)), se, df, se, "Welch's t")

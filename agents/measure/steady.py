"""Detect while a load runs that its rate is steady: the warm-up that ends by itself.

The samples become means of windows. MSER (White 1997) finds how many windows belong to the start: the least number
whose removal brings the squared error of the mean within a fifth of its minimum; half of them or more is no steady
state. The rest must not drift: the Theil-Sen slope over all of it stays within a share of its median. The server
judges measured steps by the same rule, in its package stats.
"""

from __future__ import annotations

from statistics import mean, median
from typing import Any, Sequence

LEAST = 6  # windows
MOST = 120  # windows that are tested: a rate that is steady over an hour is steady over minutes
NEAR_MINIMUM = 1.2

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "window_s": {"type": "integer", "minimum": 1, "maximum": 60, "description": "1 to 60 seconds"},
        "within": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 0.5,
            "description": "a fraction, such as 0.02",
        },
    },
    "required": ["window_s", "within"],
    "additionalProperties": False,
}


class Steadiness:
    """Takes the rate of each second, and detects when the load is steady."""

    def __init__(self, window_s: float, within: float) -> None:
        self._window_s, self._within = window_s, within
        self._means: list[float] = []
        self._open: list[float] = []
        self._number = 0
        self.left_out, self.drift = 0, 0.0
        self.reached = False

    def add(self, t: float, rate: float) -> None:
        """The rate of what ended `t` seconds after the beginning."""
        second = max(1, round(t))
        number = int((second - 1) // self._window_s)
        if number > self._number and self._open:
            self._close()
        self._number = number
        self._open.append(rate)
        if second >= (number + 1) * self._window_s:
            self._close()

    def _close(self) -> None:
        self._means.append(mean(self._open))
        self._open, self._number = [], self._number + 1
        means = self._means[-MOST:]
        self.left_out = mser_cut(means)
        self.drift = relative_slope(means[self.left_out :])
        enough = len(means) >= LEAST and self.left_out < len(means) // 2
        self.reached = enough and abs(self.drift) <= self._within

    def as_json(self, after_s: float) -> dict[str, Any]:
        """The windows and limits of the decision, for the log."""
        means = self._means[-MOST:]
        return {
            "reached": self.reached,
            "after_s": round(after_s, 1),
            "window_s": self._window_s,
            "windows": len(means),
            "left_out": self.left_out,
            "mean": round(mean(means[self.left_out :]), 3) if means else None,
            "drift": round(self.drift, 4),
            "within": self._within,
        }


def mser_cut(means: Sequence[float]) -> int:
    """Windows to leave out: the smallest d up to half of them whose MSER is at most 1.2 times the least."""
    if len(means) < 2:
        return 0
    errors = [_mser(means[d:]) for d in range(len(means) // 2 + 1)]
    most = NEAR_MINIMUM * min(errors)
    return next(d for d, error in enumerate(errors) if error <= most)


def _mser(tail: Sequence[float]) -> float:
    middle = mean(tail)
    return sum((value - middle) ** 2 for value in tail) / len(tail) ** 2


def relative_slope(means: Sequence[float]) -> float:
    """Return the Theil-Sen slope's change over all windows, as a share of their median."""
    middle = median(means) if means else 0.0
    if len(means) < 2:
        return 0.0
    if middle <= 0:
        return 1.0  # no progress for half of the time: later windows have all of it
    slopes = [(b - a) / (j - i) for i, a in enumerate(means) for j, b in enumerate(means[i + 1 :], start=i + 1)]
    return median(slopes) * (len(means) - 1) / middle


def sentence(summary: dict[str, Any], unit: str) -> tuple[str, str]:
    """(level of the log, text) of a summary by as_json."""
    if summary["windows"] < 2:
        return "warning", f"not steady after {summary['after_s']:g} s: it reported too few rates for details"
    rest = summary["windows"] - summary["left_out"]
    numbers = (
        f"{summary['windows']} windows of {summary['window_s']:g} s, the first {summary['left_out']} left out (MSER). "
        f"Mean of the other {rest}: {summary['mean']:.6g} {unit}, drift {summary['drift']:+.1%}. (Steady: within "
        f"{summary['within']:.1%}, at least {LEAST} windows, less than half left out)"
    )
    if summary["reached"]:
        return "info", f"steady after {summary['after_s']:g} s: {numbers}"
    return "warning", f"not steady after {summary['after_s']:g} s: {numbers}"

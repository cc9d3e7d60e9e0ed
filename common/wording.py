"""How page, report, chart and API write numbers and verdicts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# What a verdict is called where people read it; each other one is called as it is written.
VERDICTS: Mapping[str, str] = {
    "points_only": "too few runs",
    "direction_better": "likely better",
    "direction_worse": "likely worse",
    "undetectable": "inconclusive",
    "better_failing": "better, but more failures",
}


def verdict_word(verdict: str) -> str:
    """ "direction_better" -> "likely better"."""
    return VERDICTS.get(verdict, verdict)


def signed(value: float) -> str:
    """A signed number with three significant digits, at most two of them decimals: +2.94, +91.7, -2,680."""
    size = abs(value)
    if size >= 99.95:
        return f"{float(f'{value:.3g}'):+,.0f}"
    return f"{value:+.1f}" if size >= 9.995 else f"{value:+.2f}"


def unsigned(value: float) -> str:
    """A number that has no sign, with three significant digits: 3.1, 91.7, 2,680."""
    return signed(value)[1:] if value >= 99.95 else f"{value:.3g}"


def percent(value: float) -> str:
    """A signed percentage with three significant digits."""
    return f"{signed(value)} %"


def p_value(value: float) -> str:
    """ "p < 0.001" or "p = 0.026"."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"

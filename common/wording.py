"""How page, report, chart and API write numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# What a state of a host is called where people read it; each other one is called as it is written.
HOST_STATES: Mapping[str, str] = {"unfit": "not ready"}


def host_state(state: str) -> str:
    """ "unfit" -> "not ready"."""
    return HOST_STATES.get(state, state)


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


def ci_of_mean(within_blocks: bool) -> str:
    """The heading of the 95 % CI of a mean. `within_blocks`: it excludes the variation between blocks."""
    return "95 % CI within blocks" if within_blocks else "95 % CI"


def and_of(names: Sequence[str]) -> str:
    """ "a, b and c"; "" of none."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def first_of(names: Sequence[str], most: int = 5) -> str:
    """ "a, b and c", or "a, b and 3 more" where there are more than `most`."""
    return and_of(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


def on_off(value: object) -> str:
    """The value of a setting as PostgreSQL writes it: "on" or "off" of a boolean, any other value as text."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def counted(count: int, noun: str) -> str:
    """ "1 block", "1,200 blocks"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

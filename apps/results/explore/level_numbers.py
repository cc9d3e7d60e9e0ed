"""Parse labels of levels as numbers, such as 14GB or 8 cpus. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

SIZE = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]*)$")
BYTES = {
    word: 2.0 ** (10 * power)
    for power, letter in enumerate(("", "k", "m", "g", "t"))
    for word in (f"{letter}b", f"{letter}ib")
}
SPREAD = 8  # ratio of the largest to the smallest from which doubling counts as a step


def numeric(labels: Sequence[str]) -> list[float] | None:
    """Return three or more labels as numbers if all are sizes, or counts of the same unit; else None. PostgreSQL's
    kB is 1024 bytes."""
    matches = [SIZE.match(label) for label in labels]
    units = {match[2].lower() if match[2].lower() not in BYTES else "bytes" for match in matches if match}
    if len(matches) < 3 or not all(matches) or len({word.removesuffix("s") for word in units}) > 1:
        return None
    values = [float(match[1]) * BYTES.get(match[2].lower(), 1) for match in matches if match]
    return values if len(set(values)) == len(values) else None


def doubling(values: Sequence[float]) -> bool:
    """Return whether they double rather than increase evenly, so that a logarithmic axis is better."""
    return min(values) > 0 and max(values) >= SPREAD * min(values)

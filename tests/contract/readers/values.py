"""What the readers share."""

from __future__ import annotations

from typing import Any


def without_absent(values: dict[str, Any]) -> dict[str, Any]:
    """The values without those that the output does not contain."""
    return {name: value for name, value in values.items() if value is not None and value != ()}

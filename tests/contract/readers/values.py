"""What the readers share."""

from __future__ import annotations

from typing import Any


def without_absent(values: dict[str, Any]) -> dict[str, Any]:
    """Without what the output does not say."""
    return {name: value for name, value in values.items() if value is not None and value != ()}

"""Tables that people kept of their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {}

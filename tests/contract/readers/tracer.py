"""Tracers: stap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {}

"""EXPLAIN: text, JSON, YAML, XML, and what psql says instead of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {}

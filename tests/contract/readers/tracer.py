"""Tracers: stap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.others.stap import parse_stap

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {"stap": lambda raw: asdict(parse_stap(raw))}

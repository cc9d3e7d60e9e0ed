"""Measurements of a command: the figures that its workload declares."""

from __future__ import annotations

import math
from typing import Any

from common.errors import FormatError
from readers.measure.figures import Measurement, Options, Outputs
from readers.patterns import last_matches


def measure_command(outputs: Outputs, options: Options) -> list[Measurement]:
    patterns = [line for line in options.get("patterns", "").splitlines() if line.strip()]
    matches = last_matches(patterns, outputs.get("stdout", b"")) if patterns else {}
    declared: dict[str, Any] = options.get("figures", {})
    return [
        Measurement(name, _number(name, matches.get(name)), each["unit"], each["better"], "as matched by its pattern")
        for name, each in declared.items()
    ]


def _number(name: str, text: str | None) -> float:
    if text is None:
        raise FormatError("command", f"{name} is not in the output", hint="correct the pattern and run it again")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FormatError("command", f"{name} is {text[:80]!r}, which is not a number", hint="correct the pattern")
    return value

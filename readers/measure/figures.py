"""The measurement, and the error for a tool that failed; shared by all readers of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from common.errors import WorkloadError

Outputs = Mapping[str, bytes]
Options = Mapping[str, Any]
LONGEST_NAME, LONGEST_DEFINITION = 120, 80


@dataclass(frozen=True)
class Measurement:
    """One figure of a step. `better` is empty if neither direction is. `definition` states how the tool defines it,
    if there are several definitions."""

    name: str
    value: float
    unit: str
    better: Literal["higher", "lower", ""]
    definition: str = ""


def incomplete(tool: str, why: str, stderr_lines: tuple[str, ...]) -> WorkloadError:
    """Return the error for a tool whose figures must not count. `stderr_lines`: what it wrote to stderr."""
    errors = [line for line in stderr_lines if "error" in line.lower() or "fatal" in line.lower()] or list(
        stderr_lines[-1:]
    )
    first_error = f": {errors[0]}" if errors else ""
    return WorkloadError(
        tool, f"the run is incomplete, {why}{first_error}", hint="its figures are only in the raw output"
    )


def distinct(measurements: list[Measurement]) -> list[Measurement]:
    """Shorten names and definitions to the width of their columns, and keep them unique. Statements and names of
    jobs can be long."""
    fitted = [
        Measurement(
            _cut(measurement.name, LONGEST_NAME),
            measurement.value,
            measurement.unit,
            measurement.better,
            _cut(measurement.definition, LONGEST_DEFINITION),
        )
        for measurement in measurements
    ]
    names = [measurement.name for measurement in fitted]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise WorkloadError(repeated, "two measurements of one step have this name", hint="give the jobs shorter names")
    return fitted


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"

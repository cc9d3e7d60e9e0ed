"""Checks the scripts of a run with the tools themselves, before anything is executed."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..errors import Failure, Unplannable
from ..host.system import System
from ..wire.schema import check as check_schema
from ..workloads import WORKLOADS
from .bench import Bench


def failures(system: System, steps: Sequence[Mapping[str, Any]], bin_dir: str) -> list[Failure]:
    """Every complaint about the scripts of these steps, with `step`, `script`, `line` (None where the tool names none)
    and `said`, the message of the tool. HostFailure if a tool is missing."""
    every: list[Failure] = []
    for step in steps:
        if step["kind"] in WORKLOADS:
            every += _complaints(Bench(system, bin_dir), step)
    return every


def _complaints(bench: Bench, step: Mapping[str, Any]) -> list[Failure]:
    workload = WORKLOADS[step["kind"]]
    try:
        check_schema(workload.schema, step["options"], workload.kind)
        workload.check(step["options"])
        complaints: list[Failure] = list(workload.parse(step["options"], bench))
    except Unplannable as refused:
        complaints = [refused]
    for failure in complaints:
        failure.details = {"script": "", "line": None, "said": failure.message, **failure.details, "step": step["name"]}
        failure.message = f"step {step['name']}: {failure.message}"
    return complaints

"""Checks of the consistency conditions of a data set after the load. A run that violates one yields no result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..errors import WorkloadFailure
from ..settings import Proof
from ..workloads import WORKLOADS
from . import DATASETS
from .base import STEP, Data
from .making import Tools

if TYPE_CHECKING:
    from ..run.running import Run

NONE = "no violations"


def prove(run: Run) -> None:
    """Check the data set of each workload after the last step. WorkloadFailure names the first violated condition."""
    kinds = [WORKLOADS[step["kind"]].dataset for step in run.spec["steps"] if step["kind"] in WORKLOADS]
    for kind in dict.fromkeys(filter(None, kinds)):
        if DATASETS[kind].consistency():
            _prove(run, DATASETS[kind])


def _prove(run: Run, data: Data) -> None:
    began = run.system.mono()
    proofs = _proofs(data, _violations(run, data))
    for proof in proofs:
        run.emit("proof", {"setting": STEP, "phase": "after", **proof.__dict__})
    violated = next((proof for proof in proofs if not proof.ok), None)
    if violated:
        hint = "check PostgreSQL's log; a shared data set may have been inconsistent before this run"
        raise WorkloadFailure(f"the data are inconsistent after the load: {violated.subject}: {violated.found}", hint)
    seconds = run.system.mono() - began
    run.log("info", f"data set {data.kind}: {len(proofs)} consistency conditions checked in {seconds:.1f} s")


def _violations(run: Run, data: Data) -> list[int]:
    """The count of each condition, from one snapshot. The load asks: its tables may be views that call its functions.
    The output of psql stays in out/dataset."""
    tools = Tools(run)
    query = f"select json_build_array({', '.join(f'({each})' for each in data.consistency().values())})"
    argv = [tools.cluster.tool("psql"), "-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-c", query]
    tools.execute("conditions", argv)
    counts: list[int] = json.loads(tools.stdout("conditions").read_text())
    return counts


def _proofs(data: Data, violations: list[int]) -> list[Proof]:
    evidence = {"source": "SQL after the last step"}
    return [
        Proof(subject, NONE, f"{count} violation{'s' * (count != 1)}" if count else NONE, not count, evidence)
        for subject, count in zip(data.consistency(), violations)
    ]

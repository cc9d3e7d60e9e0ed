"""Proof that the data are still consistent after a load that keeps to the rules: a run that breaks a condition of its
data set yields no result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..errors import WorkloadFailure
from ..measure.stage import run_tool
from ..settings import Proof
from ..workloads import WORKLOADS
from . import DATASETS
from .base import STEP, Data
from .making import LIMIT_S

if TYPE_CHECKING:
    from ..run.running import Run

NONE = "no violations"


def prove(run: Run) -> None:
    """After the last step, what each of its workloads left in its data set. WorkloadFailure names the first condition
    that does not hold."""
    kinds = [WORKLOADS[step["kind"]].dataset for step in run.spec["steps"] if step["kind"] in WORKLOADS]
    for kind in dict.fromkeys(filter(None, kinds)):
        if DATASETS[kind].conditions():
            _prove(run, DATASETS[kind])


def _prove(run: Run, data: Data) -> None:
    begin = run.system.mono()
    proofs = _proofs(data, _violations(run, data))
    for proof in proofs:
        run.emit("proof", {"setting": STEP, "phase": "after", **proof.__dict__})
    broken = next((proof for proof in proofs if not proof.ok), None)
    if broken:
        hint = "look at PostgreSQL's log; data that runs keep may have been inconsistent before this one"
        raise WorkloadFailure(f"the data are inconsistent after the load: {broken.subject}: {broken.found}", hint)
    run.log(
        "info", f"data set {data.kind}: {len(proofs)} conditions hold, checked in {run.system.mono() - begin:.1f} s"
    )


def _violations(run: Run, data: Data) -> list[int]:
    """Of each condition, in one snapshot; what psql printed stays in out/dataset."""
    assert run.cluster is not None  # noqa: S101 - for the type checker; planning asks for a target
    out = run.job.path / "out" / STEP / "conditions"
    out.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    query = f"select json_build_array({', '.join(f'({each})' for each in data.conditions().values())})"
    argv = [run.cluster.tool("psql"), "-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-c", query]
    run_tool(run, argv, purpose=f"{STEP} conditions", limit_s=LIMIT_S, out=out, as_owner=True)
    found: list[int] = json.loads(out.with_name("conditions.stdout").read_text())
    return found


def _proofs(data: Data, violations: list[int]) -> list[Proof]:
    evidence = {"source": "SQL after the last step"}
    return [
        Proof(subject, NONE, f"{count} violation{'s' * (count != 1)}" if count else NONE, not count, evidence)
        for subject, count in zip(data.conditions(), violations)
    ]

"""Planned restarts: a step that ends this boot, and whether the run continues in the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..errors import Cancelled, HostFailure
from ..host.system import System
from ..records.spool import Job

if TYPE_CHECKING:
    from ..run.running import Run

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit_s": {
            "type": "number",
            "minimum": 30,
            "maximum": 86400,
            "description": "30 to 86400 seconds until the host must be back",
        }
    },
    "additionalProperties": False,
}
LIMIT_S = 1800.0
GONE_S = 0.1


class Verdict(NamedTuple):
    """`what` becomes of an unsealed run without a process: dead, wait or resume; `reason` for a restart given up."""

    what: str
    reason: str = ""


def verdict(job: Job, system: System) -> Verdict:
    """Return whether the run's newest state is REBOOTING. It resumes only once, because resuming is a newer state."""
    states = job.states()
    last = states[-1] if states else {}
    is_here = last.get("boot_id") == system.boot_id()
    is_step = "limit_s" not in last  # a loaded kernel starts even if the run is cancelled
    if last.get("state") != "REBOOTING" or (job.cancelled and (is_step or not is_here)):
        return Verdict("dead")
    limit_s = limit_of(job.order["spec"]["steps"][last["index"]]) if is_step else last["limit_s"]
    if last.get("is_over") and not is_here:
        return Verdict("dead")
    if is_here:
        late = system.mono() - last["mono"] > limit_s
        return Verdict("dead", f"the host did not go down within {limit_s:g} s") if late else Verdict("wait")
    took_s = system.wall() - last["wall"]
    if took_s > limit_s:
        return Verdict("dead", f"restarting the host took {took_s:.0f} s; {limit_s:g} s were allowed")
    return Verdict("resume")


def limit_of(step: dict[str, Any]) -> float:
    return float(step["options"].get("limit_s", LIMIT_S))


def next_step(job: Job) -> int:
    """The index in spec.steps at which the run begins or continues."""
    left = [record["index"] for record in job.states() if record["state"] == "REBOOTING"]
    return left[-1] + 1 if left else 0


def leave(run: Run, index: int) -> NoReturn:
    """Stop the server, put the place on record, restart the host. Returns by SystemExit: nothing is rolled back.

    Cancelled, or HostFailure when the host does not go down.
    """
    step, system = run.spec["steps"][index], run.system
    run.check()
    run.stop_server()
    run.enter("REBOOTING", index=index)
    system.reboot()
    deadline = system.mono() + limit_of(step)
    while system.mono() < deadline:
        if run.stopped:  # the shutdown's own SIGTERM
            raise SystemExit(0)
        if run.job.cancelled:
            raise Cancelled("the run was cancelled")
        system.sleep(GONE_S)
    raise HostFailure(f"the host did not go down within {limit_of(step):g} s", "check its console")

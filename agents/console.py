"""The verbs for the host's own shell, and for the units: what they did, in a person's words."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable

from .errors import Failure
from .host.system import System
from .records.journal import Journal
from .records.spool import Job, Record, Spool
from .recovery import kept_boot, reboot, units
from .recovery.boot import disarm
from .recovery.recover import descriptions
from .rpc import Agent
from .run.launching import launch


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _agent(root: Path, agent_id: str) -> Agent:
    spool = Spool(root, System())
    spool.prepare()
    return Agent(spool, agent_id, launch)


def guard(root: Path, agent_id: str) -> None:
    """Restore the host after dead runs, resume after a planned restart. Exit status 1 if something is not restored."""
    agent = _agent(root, agent_id)
    recovered = agent.restore()["recovered"]
    for status in recovered:
        _say(f"run {status['run']}: {_end(status)}", *(f"  {line}" for line in status["did"]))
    waiting = [job.run for job in agent.spool.unsealed()]
    if not recovered:
        _say(f"run {waiting[0]} is active" if waiting else "nothing to restore")
    sys.exit(1 if any(status["clean"] is False for status in recovered) else 0)


def _end(status: Record) -> str:
    if status["clean"] is None:
        return f"{status['state']} {status['step']}".strip()
    return (
        "the host is restored" if status["clean"] else "the host is NOT restored: restore it manually, then try again"
    )


def boot(root: Path, agent_id: str) -> None:
    """Early after a start of the host: put persistent settings back before anything reads them. The guard does the
    rest, when processes can be ended and the run can be sealed."""
    spool = Spool(root, System())
    with spool.verbs():
        lock = spool.lock_host()
        if lock is None:
            sys.exit("a run is active; it restores its changes when it ends")
        for job in spool.unsealed():
            what = reboot.verdict(job, spool.system).what
            if what == "dead":
                _say(f"run {job.run}", *(f"  {line}" for line in _restore_files(job, spool.system)))
            elif what == "resume":
                disarm(Journal(job, spool.system))
        os.close(lock)


def _restore_files(job: Job, system: System) -> list[str]:
    journal = Journal(job, system)
    before = journal.log.seq
    unproven = disarm(journal) + journal.restore("persistent")[1]
    return descriptions(journal, before) + [f"not restored: {each}" for each in unproven]


def status(root: Path, agent_id: str) -> None:
    """Print the kind of supervision on this host, and the known runs."""
    spool = Spool(root, System())
    _say(f"agent {agent_id}, level {spool.system.level()}", f"systemd units: {units.state(spool, agent_id)}")
    kept = kept_boot.found(spool)
    if kept:
        what = "restarts, to end" if kept["restarts"] else "keeps, for the next run,"
        _say(f"the host {what} the kernel parameters of run {kept['left_by']}")
    for job in spool.jobs():
        known = job.status(alive=not job.sealed)
        dirty = ", the host is NOT restored" if job.dirty else ""
        _say(" ".join(filter(None, ["run", job.run, known["state"], known["step"], known["outcome"]])) + dirty)


def install(root: Path, agent_id: str) -> None:
    _attempt(lambda: [f"written {path}" for path in _agent(root, agent_id).install()["written"]])


def uninstall(root: Path, agent_id: str) -> None:
    _attempt(lambda: [f"removed {path}" for path in _agent(root, agent_id).uninstall()["removed"]])


def _attempt(act: Callable[[], list[str]]) -> None:
    try:
        _say(*act() or ["nothing to remove"])
    except Failure as failure:
        sys.exit(f"{failure.message}; {failure.hint}")

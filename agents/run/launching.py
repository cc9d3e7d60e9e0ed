"""Starts a submitted run in a process that outlives the connection: a systemd unit, or a detached child."""

from __future__ import annotations

import os
from pathlib import Path

from ..records.spool import Job, Spool
from ..recovery import units

MAX_FD = 4096  # a connection opens a handful


def launch(spool: Spool, job: Job, lock: int, agent_id: str) -> None:
    """Under systemd where its units are installed, else detached."""
    if units.installed(spool):
        units.start(spool, job, lock, agent_id)
    else:
        detach(spool, job, lock, agent_id)


def detach(spool: Spool, job: Job, lock: int, agent_id: str) -> None:
    """Execute the run in a new session that holds the host lock and does not depend on this process or its terminal.

    Forks without exec, because loading the agent again would take 0.1 s of each run. What is loaded before the fork
    stays in the parent for the next run.
    """
    from ..datasets import consistency, lend  # noqa: F401 - for the runs
    from . import collecting, targets  # noqa: F401
    from .session import Session

    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    code = 1
    try:
        os.setsid()
        if os.fork() == 0:
            _let_go(job, lock)
            Session(spool, job, agent_id).execute()
        code = 0
    except Exception:  # noqa: BLE001 - no caller is left; the log of the job gets the traceback
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _let_go(job: Job, lock: int) -> None:
    """Keep nothing of the connection: its pipes would hold it open, its lock would stop all other verbs."""
    log = os.open(job.path / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target, inheritable=True)
    os.closerange(3, lock)
    os.closerange(lock + 1, MAX_FD)
    os.chdir("/")
    Path("/proc/self/comm").write_text("pg-agent-run")

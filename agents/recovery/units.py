"""Units of systemd: a run outlives sessions and connections, and the host is restored after a dead run even if the
server does not connect.

proving-ground-run@UUID     one run; its ExecStopPost restores the host after a killed agent
proving-ground-boot         after a power cut, persistent settings are restored before any service starts
proving-ground-guard        each minute: restores the host after a dead run, resumes a run after a planned restart

All of them belong to one spool. They execute <spool>/agent.pyz, or the launcher if it started this agent (launcher.py).
A run is executed by the agent that accepted it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from pathlib import Path

from ..errors import HostFailure, PlanFailure
from ..host.system import Finished, System
from ..records.spool import Job, Spool, replace

DIRECTORY = Path("/etc/systemd/system")
BOOTED = "/run/systemd/system"  # sd_booted(3)
INSTALLED = ("current", "outdated")
UP_S = 10.0  # less than a caller waits for an answer
POLL_S = 0.5
ACCEPTED = "agent.env"
PLAIN = re.compile(r"^/[A-Za-z0-9._/+-]+$")
RUN, ENABLED = "proving-ground-run@.service", ("proving-ground-boot.service", "proving-ground-guard.timer")

# KillMode=process: the guard ends PostgreSQL with a fast shutdown, where systemd would end all with one signal.
# OOMPolicy=continue: a load generator that the kernel killed fails its step, not the run's supervision.
TEXTS = {
    RUN: """[Unit]
Description=Proving Ground: run %i
CollectMode=inactive-or-failed

[Service]
{accepted}ExecStart={run} run --spool {spool} --run %i
ExecStopPost={agent} guard --spool {spool}
KillMode=process
TimeoutStopSec=5min
OOMPolicy=continue
TasksMax=infinity
""",
    "proving-ground-boot.service": """[Unit]
Description=Proving Ground: restore persistent settings of a dead run before services start
DefaultDependencies=no
After=local-fs.target
Before=basic.target postgresql.service shutdown.target
Conflicts=shutdown.target
ConditionDirectoryNotEmpty={spool}/jobs

[Service]
Type=oneshot
ExecStart={agent} boot --spool {spool}
TimeoutStartSec=2min

[Install]
WantedBy=basic.target
""",
    # flock is a cheap check: while a run is measured, no interpreter starts beside it.
    "proving-ground-guard.service": """[Unit]
Description=Proving Ground: restore the host after a dead run, resume a run after a restart
After=multi-user.target

[Service]
Type=oneshot
ExecCondition={flock} --nonblock {spool}/host.lock true
ExecStart={agent} guard --spool {spool}
TimeoutStartSec=10min
""",
    "proving-ground-guard.timer": """[Unit]
Description=Proving Ground: start the guard each minute

[Timer]
OnBootSec=1s
OnUnitActiveSec=60s
AccuracySec=1s

[Install]
WantedBy=timers.target
""",
}


def unit_of(run: str) -> str:
    return f"proving-ground-run@{run}.service"


def installed(spool: Spool) -> bool:
    """Whether runs of this spool are supervised by systemd."""
    return state(spool, "") in INSTALLED


def state(spool: Spool, agent: str) -> str:
    """unavailable: not root, or systemd is not PID 1. absent. outdated: of another agent. current."""
    system = spool.system
    if system.level() != "root" or not system.exists(BOOTED):
        return "unavailable"
    if f" --spool {spool.root} " not in system.text(str(DIRECTORY / RUN)):
        return "absent"
    texts = {name: system.text(str(DIRECTORY / name)) for name in TEXTS}
    same = texts == {name: text.strip() for name, text in _texts(spool, agent).items()}
    return "current" if same and (system.launcher() or (spool.root / "agent.pyz").exists()) else "outdated"


def _texts(spool: Spool, agent: str) -> dict[str, str]:
    values = {"spool": spool.root, "flock": spool.system.which("flock") or "flock", **_programs(spool, agent)}
    return {name: f"# agent {agent}\n{text.format(**values)}" for name, text in TEXTS.items()}


def _programs(spool: Spool, agent: str) -> dict[str, str]:
    """How units start the agent. "run": the one that accepted a run, as "accepted" names it; "agent": the newest."""
    launcher, python = spool.system.launcher(), sys.executable
    if not launcher:
        run, newest = f"{spool.root}/jobs/%i/agent.pyz", f"{spool.root}/agent.pyz"
        return {"accepted": "", "run": f"{python} -I {run}", "agent": f"{python} -I {newest}"}
    accepted = f"EnvironmentFile={spool.root}/jobs/%i/{ACCEPTED}\n"
    return {"accepted": accepted, "run": f"{launcher} run ${{PROVING_AGENT}}", "agent": f"{launcher} run {agent}"}


def install(spool: Spool, agent: str) -> list[str]:
    """Install the units, or update them to this agent. Returns the written files. PlanFailure if it is not possible."""
    _check(spool, agent)
    _write(spool, agent)
    _systemctl(spool.system, "enable", *ENABLED)  # this includes a daemon-reload
    _systemctl(spool.system, "start", "proving-ground-guard.timer")
    own = [] if spool.system.launcher() else [str(spool.root / "agent.pyz")]
    return [*(str(DIRECTORY / name) for name in TEXTS), *own]


def _write(spool: Spool, agent: str) -> None:
    if not spool.system.launcher():
        replace(spool.root / "agent.pyz", Path(sys.argv[0]).read_bytes())
    for name, text in _texts(spool, agent).items():
        replace(DIRECTORY / name, text.encode())
        os.chmod(DIRECTORY / name, 0o644)


def _check(spool: Spool, agent: str) -> None:
    if state(spool, agent) == "unavailable":
        raise PlanFailure(
            "units need root and a systemd that is PID 1", "without them, the next contact restores the host"
        )
    if agent == "source":
        raise PlanFailure("units require the agent as a single file", "install from the agent that the server sent")
    for path in (str(spool.root), spool.system.launcher() or sys.executable):
        if not PLAIN.match(path):
            raise PlanFailure(f"{path!r} is not accepted in a unit", "use letters, digits, dot, dash, underscore and /")
    other = re.search(r" --spool (\S+) ", spool.system.text(str(DIRECTORY / RUN)))
    if other and other.group(1) != str(spool.root):
        raise PlanFailure(f"units are already installed for the spool {other.group(1)}", "uninstall these first")


def refresh(spool: Spool, agent: str) -> None:
    """Make the units execute this agent, if they are of another one."""
    if agent != "source" and state(spool, agent) == "outdated":
        with spool.verbs():
            _write(spool, agent)
        _systemctl(spool.system, "daemon-reload")


def uninstall(spool: Spool) -> list[str]:
    """Remove the units. Returns the removed files. PlanFailure while a run is not sealed."""
    if not installed(spool):
        return []
    busy = [job.run for job in spool.unsealed()]
    if busy:
        raise PlanFailure(f"run {', '.join(busy)} is active on this host", "cancel it, or wait until it ends")
    _systemctl(spool.system, "disable", "--now", *ENABLED)
    removed = [*(DIRECTORY / name for name in TEXTS), spool.root / "agent.pyz"]
    for path in removed:
        path.unlink(missing_ok=True)
    _systemctl(spool.system, "daemon-reload")
    return [str(path) for path in removed]


def start(spool: Spool, job: Job, lock: int, agent: str) -> None:
    """Make systemd execute the run, and wait until it does; our `lock` passes to it. HostFailure with the message of
    systemd if it does not. On a slow host, `coming` shows afterwards that the run is starting."""
    _note_agent(job, agent, spool.system.launcher())
    records, unit = len(job.states()), unit_of(job.run)
    fcntl.flock(lock, fcntl.LOCK_UN)
    _systemctl(spool.system, "start", "--no-block", unit)
    if not _came_up(spool.system, job, records):
        output = spool.system.run(["journalctl", "--no-pager", "-o", "cat", "-n", "20", "-u", unit]).stdout.strip()
        last = output.splitlines()[-1:] or ["without a message"]
        raise HostFailure(f"{unit} did not start the run: {last[0]}", f"see journalctl -u {unit}", journal=output)


def _note_agent(job: Job, agent: str, launcher: str) -> None:
    """Record the agent that accepted the run, which its unit starts, also after a planned restart."""
    if launcher and not (job.path / ACCEPTED).exists():
        job.store(ACCEPTED, f"PROVING_AGENT={agent}\n".encode())
    if not launcher and not (job.path / "agent.pyz").exists():
        _link(Path(sys.argv[0]), job.path / "agent.pyz")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def _came_up(system: System, job: Job, records: int) -> bool:
    """Whether the run has recorded a state, as it does when it holds the lock, or may still do so."""
    deadline, next_check = system.mono() + UP_S, system.mono() + POLL_S
    while len(job.states()) == records and system.mono() < deadline:
        if system.mono() > next_check:
            next_check = system.mono() + POLL_S
            if not _is_there(system, job.run):
                return len(job.states()) > records
        system.sleep(0.02)
    return True


def coming(spool: Spool, job: Job) -> bool:
    """Whether a run that does not hold the lock has a process nevertheless, because it was just started."""
    is_recorded = any((job.path / name).exists() for name in ("agent.pyz", ACCEPTED))
    return installed(spool) and is_recorded and _is_there(spool.system, job.run)


def _is_there(system: System, run: str) -> bool:
    shown = _systemctl(system, "show", "-p", "MainPID", "-p", "Job", unit_of(run)).stdout
    properties = dict(line.partition("=")[::2] for line in shown.splitlines())
    return properties.get("MainPID", "0") != "0" or properties.get("Job", "0") not in ("", "0")


def _systemctl(system: System, *args: str) -> Finished:
    done = system.run(["systemctl", *args], limit_s=60.0)
    if done.code:
        raise HostFailure(f"systemctl {' '.join(args)} failed: {done.stderr.strip()}", "see journalctl -b")
    return done

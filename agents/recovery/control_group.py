"""The control group in which a run starts PostgreSQL: created for the run, and removed however the run ends.

Where systemd is PID 1, it manages all groups: at any moment it may switch off controllers that none of its units
needs, and remove groups that are not its units. So the group lies below a scope of the run's own, which systemd
delegates (`Delegate=`). systemd creates a scope only with a process, and removes it, with the groups below it, after
its last process. So systemd-run starts a process that sleeps. Without systemd, the group is a directory below the
mounted root.

    system.slice/proving-ground-RUN.scope/{keeper,server}     with systemd
    proving-ground-RUN                                        without
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Sequence

from ..errors import HostFailure, NotApplied
from ..host import cgroups
from ..host.system import System
from ..records.journal import Journal
from ..records.processes import DEVNULL, Account, Child, environment, spawn
from ..records.spool import Record

SLICE, SLEEPER, SERVER = "system.slice", "keeper", "server"
PURPOSE = "control_group"  # of the process that keeps the scope alive
UP_S, GONE_S, STOP_S = 60.0, 60.0, 10.0
POLL_S = 0.02
Limits = Sequence[tuple[str, str]]


def make(system: System, journal: Journal, out: Path, limits: Limits) -> str:
    """The directory of a new group with these limits. NotApplied if it exists, or if the kernel refuses a limit."""
    controllers = cgroups.controllers_for(file for file, _ in limits)
    mount = cgroups.mounts(system)[cgroups.V2][0]
    unit = f"proving-ground-{journal.run}.scope" if system.exists(cgroups.SYSTEMD) else ""
    path = f"{mount}/{SLICE}/{unit}" if unit else f"{mount}/proving-ground-{journal.run}"
    if system.exists(path):
        # Checked before it is recorded, because recovery kills the processes of a recorded group.
        raise NotApplied("cgroup", f"a new group {path}", "one that exists", "end its processes and remove it")
    if unit:
        journal.note("group", path=path, unit=unit, enabled=[], others=[])
        group = _in_scope(system, journal, out, unit, controllers)
    else:
        group = path
        lacking = [each for each in controllers if each not in _enabled(system, mount)]
        journal.note("group", path=group, unit="", enabled=lacking, others=_children(system, mount))
        _enable(system, mount, lacking)
        system.make_directory(group)
    for file, text in limits:
        _write(system, group, file, text)
    return group


def _write(system: System, group: str, file: str, text: str) -> None:
    try:
        system.write(f"{group}/{file}", text)
    except OSError as error:
        raise NotApplied("cgroup", f"{file} = {text}", f"refused by the kernel: {error.strerror}") from error


def _enabled(system: System, directory: str) -> list[str]:
    return system.text(f"{directory}/cgroup.subtree_control").split()


def _enable(system: System, directory: str, controllers: list[str]) -> None:
    if not controllers:
        return
    text = " ".join(f"+{controller}" for controller in controllers)
    try:
        system.write(f"{directory}/cgroup.subtree_control", text)
    except OSError as error:
        raise NotApplied("cgroup", f"{text} in {directory}/cgroup.subtree_control", error.strerror) from error


def _in_scope(system: System, journal: Journal, out: Path, unit: str, controllers: list[str]) -> str:
    out.mkdir(exist_ok=True, mode=0o700)
    argv = [
        *(system.tool("systemd-run"), "--scope", "--quiet", "--collect", f"--unit={unit}", f"--slice={SLICE}"),
        # No limit on tasks: PostgreSQL may have thousands of connections.
        *(f"--property=Delegate={' '.join(controllers)}", "--property=TasksMax=infinity"),
        *(system.tool("sleep"), "infinity"),
    ]
    with (out / f"{PURPOSE}.stderr").open("wb") as stderr:
        sleeper = spawn(
            journal,
            argv,
            purpose=PURPOSE,
            account=Account(name="root"),
            env=environment(journal.run),
            stdout=DEVNULL,
            stderr=stderr,
        )
    scope = _await_scope(system, sleeper, unit, out)
    for name in (SLEEPER, SERVER):
        system.make_directory(f"{scope}/{name}")
    # A group with controllers for its children may not have processes itself.
    system.write(f"{scope}/{SLEEPER}/cgroup.procs", str(sleeper.pid))
    lacking = sorted(set(controllers) - set(system.text(f"{scope}/cgroup.controllers").split()))
    if lacking:
        hint = "a newer systemd may delegate it; leave the setting out, or choose another host"
        raise NotApplied("cgroup", f"{', '.join(lacking)} in {scope}", "not delegated by systemd", hint)
    _enable(system, scope, controllers)
    return f"{scope}/{SERVER}"


def _await_scope(system: System, sleeper: Child, unit: str, out: Path) -> str:
    """The scope's directory, once its process is in it."""
    deadline = system.mono() + UP_S
    while not (group := cgroups.group_of(system, sleeper.pid)).endswith(f"/{unit}"):
        if sleeper.wait(POLL_S) is not None or system.mono() > deadline:
            problem = (out / f"{PURPOSE}.stderr").read_text(errors="replace").strip() or "no message"
            raise HostFailure(f"systemd-run did not create {unit}: {problem}", "see journalctl -b")
    return cgroups.directory(system, group)


def remove(system: System, journal: Journal) -> list[str]:
    """Remove the run's groups with the processes in them; the reason for each group that remains. The recorded
    processes of the run, and the process that keeps the scope, have ended before."""
    problems = []
    for entry in journal.unclosed("group", "ungrouped"):
        problem = _remove(system, entry)
        if problem:
            problems.append(problem)
        else:
            _disable(system, entry)
            journal.note("ungrouped", of=entry["seq"])
    return problems


def proofs(journal: Journal) -> Iterator[Record]:
    """The proof for each group of the run that it was removed."""
    closed = {record["of"] for record in journal.records if record["entry"] == "ungrouped"}
    for entry in (record for record in journal.records if record["entry"] == "group"):
        is_gone = entry["seq"] in closed
        yield {
            "setting": "cgroup",
            "phase": "restored",
            "subject": entry["path"],
            "wanted": "removed",
            "found": "removed" if is_gone else "still there",
            "ok": is_gone,
            "evidence": {"source": "the directory of the group", "unit": entry["unit"]},
        }


def _remove(system: System, entry: Record) -> str:
    """Kill the processes of a group and remove it; "" once it does not exist. systemd removes its scope itself."""
    if entry["boot_id"] == system.boot_id() and cgroups.V2 not in cgroups.mounts(system):
        return f"whether the control group {entry['path']} exists is unknown: version 2 is no longer mounted"
    began, stopped = system.mono(), False
    while system.exists(entry["path"]):
        _empty(system, entry["path"], keep=bool(entry["unit"]))
        waited = system.mono() - began
        if waited > GONE_S:
            return f"the control group {entry['path']} still exists"
        if entry["unit"] and waited > STOP_S and not stopped:
            stopped = True
            with suppress(HostFailure):
                system.run(["systemctl", "stop", entry["unit"]], limit_s=30.0)
        system.sleep(POLL_S)
    return ""


def _empty(system: System, path: str, keep: bool) -> None:
    """Kill the processes of a group and of those below it, and remove the groups; `keep` leaves the topmost one."""
    for directory in [*_below(system, path), path]:
        # A process of another PID namespace reads 0 here, which would signal our own process group.
        pids = {int(pid) for pid in system.text(f"{directory}/cgroup.procs").split()} - {0, os.getpid()}
        for pid in pids:
            system.kill(pid, signal.SIGKILL)
        if directory != path or not keep:
            with suppress(OSError):  # busy until its processes have ended; tried again
                system.remove_directory(directory)


def _below(system: System, path: str) -> list[str]:
    """The groups below one, deepest first."""
    children = [f"{path}/{name}" for name in _children(system, path)]
    return [group for child in children for group in [*_below(system, child), child]]


def _children(system: System, path: str) -> list[str]:
    """Names of the groups directly below one."""
    return [name for name in system.names(path) if system.exists(f"{path}/{name}/cgroup.procs")]


def _disable(system: System, entry: Record) -> None:
    """Switch off the controllers that were switched on for the group, unless a newer group may use them by now: its
    limits would be lost with the controller."""
    mount = os.path.dirname(entry["path"])
    if set(_children(system, mount)) - set(entry["others"]):
        return
    for controller in set(entry["enabled"]) & set(_enabled(system, mount)):
        with suppress(OSError):  # busy if an older group has enabled it for its own groups, so it stays enabled
            system.write(f"{mount}/cgroup.subtree_control", f"-{controller}")

"""Processes in /proc, and Linux's two mechanisms for orphans.

A PID is reused, so a process is identified by PID and start time (clock ticks since boot, field 22 of
/proc/PID/stat) within one boot."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
KILL_S = 10  # only a process in an uninterruptible wait for a device survives SIGKILL longer
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat. `start` in clock ticks since boot."""

    pid: int
    state: str
    ppid: int
    pgid: int
    sid: int
    start: int


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def adopt_orphans(adopt: bool = True) -> bool:
    """Adopt descendants whose parent ends, so that none can escape by setsid. Returns whether this was set before.

    The caller also has to collect them; see `reap_adopted`."""
    before = ctypes.c_int()
    if _LIBC.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_GET_CHILD_SUBREAPER)")
    _prctl(PR_SET_CHILD_SUBREAPER, int(adopt))
    return bool(before.value)


def dies_with_parent(sig: signal.Signals) -> Callable[[], None]:
    """Return a preexec_fn: the child gets `sig` when the thread that started it dies, even by SIGKILL."""
    parent = os.getpid()

    def arrange() -> None:
        _prctl(PR_SET_PDEATHSIG, sig)
        if os.getppid() != parent:  # the parent died before this took effect
            os._exit(1)

    return arrange


def boot_id() -> str:
    """Return an ID that changes with each boot of the kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read(pid: int) -> Process | None:
    """Return the process; None if there is none with this PID."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain spaces and parentheses
    return Process(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def every() -> list[Process]:
    """Return all visible processes, including zombies."""
    readings = (read(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [process for process in readings if process is not None]


def alive(process: Process) -> bool:
    """Return whether this process, and not a successor with its PID, still runs."""
    now = read(process.pid)
    return now is not None and now.start == process.start and now.state not in "ZX"


def descendants(pid: int, without: Iterable[int] = ()) -> list[Process]:
    """Return the live descendants of `pid`, parents first, without the trees below `without`."""
    skip, everyone = set(without), every()
    below: list[Process] = []
    parents = {pid}
    while parents:
        level = [p for p in everyone if p.ppid in parents and p.pid not in skip]
        below += level
        parents = {p.pid for p in level}
    return [p for p in below if p.state not in "ZX"]


def children(pid: int) -> list[int]:
    """Return the PIDs of all direct children, including zombies."""
    return [p.pid for p in every() if p.ppid == pid]


def in_session(sid: int) -> list[Process]:
    """Return the live processes of a session. Linux does not reuse a PID while it is the ID of a session."""
    return [p for p in every() if p.sid == sid and p.state not in "ZX"]


def reap_adopted(known: Iterable[int] = ()) -> None:
    """Collect adopted orphans that ended. `known`: PIDs with their own Popen, which collects them."""
    mine, keep = os.getpid(), set(known)
    for process in every():
        if process.ppid == mine and process.state == "Z" and process.pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def send(processes: Iterable[Process], sig: signal.Signals) -> None:
    """Send a signal to each process that still exists."""
    for process in processes:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, sig)


def wait_gone(find: Callable[[], list[Process]], timeout_s: float) -> list[Process]:
    """Wait until `find` returns no process. Returns those that are left after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def end_descendants(grace_s: float, without: Iterable[int] = ()) -> list[Process]:
    """End all descendants of this process. Returns those that had to be killed.

    Direct children get the first signal alone (an agent then stops its own server and restores the host); then all
    get it, and then SIGKILL. Call `adopt_orphans` early, or detached processes are not included."""
    keep, me = list(without), os.getpid()

    def left() -> list[Process]:
        reap_adopted(keep)
        return descendants(me, keep)

    send([p for p in left() if p.ppid == me], signal.SIGTERM)
    if wait_gone(left, grace_s):
        send(left(), signal.SIGTERM)
    killed, deadline = wait_gone(left, min(grace_s, 3)), time.monotonic() + KILL_S
    while (stubborn := left()) and time.monotonic() < deadline:
        send(stubborn, signal.SIGKILL)  # killed parents leave children, which this process adopts and ends next
        time.sleep(0.02)
    return killed

"""Processes as /proc tells them, and the two promises Linux makes about orphans.

A pid alone names nobody for long, so a process is known by pid and start time (clock ticks since boot, field 22 of
/proc/PID/stat) within one boot.
"""

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
KILL_S = 10  # nobody outlives SIGKILL this long but in an uninterruptible wait for a device
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
    """From now on, descendants whose parent ends become our children, so that none can slip away by setsid.

    They are then ours to collect as well, see `reap_adopted`. Answers whether it was so before.
    """
    before = ctypes.c_int()
    if _LIBC.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_GET_CHILD_SUBREAPER)")
    _prctl(PR_SET_CHILD_SUBREAPER, int(adopt))
    return bool(before.value)


def dies_with_parent(sig: signal.Signals) -> Callable[[], None]:
    """A preexec_fn: the child gets `sig` when the thread that starts it dies, even by SIGKILL."""
    parent = os.getpid()

    def arrange() -> None:
        _prctl(PR_SET_PDEATHSIG, sig)
        if os.getppid() != parent:  # it died before the arrangement held
            os._exit(1)

    return arrange


def boot_id() -> str:
    """Changes with each boot of the kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read(pid: int) -> Process | None:
    """The process, or None when there is none with this pid."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and parentheses
    return Process(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def every() -> list[Process]:
    """All processes that can be seen, zombies included."""
    readings = (read(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [process for process in readings if process is not None]


def alive(process: Process) -> bool:
    """Whether this very process (not a successor with its pid) still runs."""
    now = read(process.pid)
    return now is not None and now.start == process.start and now.state not in "ZX"


def descendants(pid: int, without: Iterable[int] = ()) -> list[Process]:
    """Live children of `pid`, their children and so on, parents first; the trees below `without` are left out."""
    skip, everyone = set(without), every()
    below: list[Process] = []
    parents = {pid}
    while parents:
        level = [p for p in everyone if p.ppid in parents and p.pid not in skip]
        below += level
        parents = {p.pid for p in level}
    return [p for p in below if p.state not in "ZX"]


def children(pid: int) -> list[int]:
    """Pids of all direct children, zombies included."""
    return [p.pid for p in every() if p.ppid == pid]


def in_session(sid: int) -> list[Process]:
    """Live processes of one session. Linux gives a pid to nobody else while it still names a session."""
    return [p for p in every() if p.sid == sid and p.state not in "ZX"]


def reap_adopted(known: Iterable[int] = ()) -> None:
    """Collects orphans that were adopted and ended. `known` pids belong to somebody's Popen and are left to it."""
    mine, keep = os.getpid(), set(known)
    for process in every():
        if process.ppid == mine and process.state == "Z" and process.pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def send(processes: Iterable[Process], sig: signal.Signals) -> None:
    """Signals each that is still the same process."""
    for process in processes:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, sig)


def wait_gone(find: Callable[[], list[Process]], timeout_s: float) -> list[Process]:
    """Polls until `find` finds nobody; answers who is left after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def end_descendants(grace_s: float, without: Iterable[int] = ()) -> list[Process]:
    """Ends all our descendants; answers those that had to be killed.

    Direct children are asked first and alone (an agent then stops its own server and puts the host back), then
    everybody is asked, then killed. Call `adopt_orphans` early, or what detached itself is not found.
    """
    keep, me = list(without), os.getpid()

    def left() -> list[Process]:
        reap_adopted(keep)
        return descendants(me, keep)

    send([p for p in left() if p.ppid == me], signal.SIGTERM)
    if wait_gone(left, grace_s):
        send(left(), signal.SIGTERM)
    killed, deadline = wait_gone(left, min(grace_s, 3)), time.monotonic() + KILL_S
    while (stubborn := left()) and time.monotonic() < deadline:
        send(stubborn, signal.SIGKILL)  # killed parents leave children behind, who become ours and are next
        time.sleep(0.02)
    return killed

"""Starting and ending the processes of a run: each in its own group, on the journal before it executes anything."""

from __future__ import annotations

import mmap
import os
import select
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Mapping, Optional, Sequence, Union

from ..errors import HostFailure
from ..host import programs
from ..host.programs import TOOL_PATH
from ..host.system import Process, System
from .journal import Journal
from .spool import Record

DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE

CAUSE_BYTES = 4096  # of the message of an error between fork and exec
MARK = "PROVING_GROUND_RUN"  # in the environment of every process of a run, so that strays can be recognised

# Signals and the seconds each is given. A postmaster: fast shutdown, immediate shutdown, the end.
CLIENT_LADDER = ((signal.SIGINT, 2.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0))
POSTGRES_LADDER = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))
# A command to a service that is not ours is waited for: cut short, it would leave the service half way.
COMMAND_LADDER = ((0, 600.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
GONE_POLL_S = 0.005
ORPHANS_S = 2.0  # busy backends of a postmaster that was killed see that soon
USUAL_UID = 1000  # of the first account that a person gets, on most machines
SUBREAPER = 36  # prctl(2), PR_SET_CHILD_SUBREAPER, since Linux 3.4
_adopters = set[int]()
LADDERS = {"postgres": POSTGRES_LADDER, "service": COMMAND_LADDER}


@dataclass(frozen=True)
class Account:
    """The account that runs PostgreSQL and the load generator: a service user, a user namespace, or the agent's own."""

    name: str
    user: Optional[int] = None
    group: Optional[int] = None
    wrapper: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    @property
    def owner(self) -> Optional[tuple[int, int]]:
        """(uid, gid) for files of this account; None for the agent's own."""
        return None if self.user is None else (self.user, self.group or 0)


def ordinary_uid() -> int:
    """A uid, other than root's, that has an account: initdb looks up the name of its user."""
    import pwd

    try:
        return pwd.getpwuid(USUAL_UID).pw_uid
    except KeyError:
        return min((entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != 0), default=USUAL_UID)


def as_uid(uid: int) -> tuple[str, ...]:
    """The prefix of a command that makes root this uid in a user namespace. Outside it, files still belong to root."""
    return ("unshare", "--user", f"--map-user={uid}", f"--map-group={uid}")


class Child:
    """A started process. `start` distinguishes it from a later process with the same pid."""

    def __init__(self, popen: subprocess.Popen[bytes], entry: Record) -> None:
        self.popen, self.entry, self.pid = popen, entry, popen.pid
        try:
            self._fd: Optional[int] = os.pidfd_open(self.pid)
        except (OSError, AttributeError):
            self._fd = None  # kernels before 5.3: waiting falls back to polling

    def wait(self, seconds: float) -> Optional[int]:
        """Exit code, or None when it still runs after `seconds`."""
        if self._fd is not None and self.popen.poll() is None:
            _wait(self._fd, seconds)
        elif self.popen.poll() is None:
            try:
                return self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
        code = self.popen.poll()
        if code is not None:
            self.close()
        return code

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _wait(fd: int, seconds: float) -> None:
    """Wait until there is something to read. Unlike select, this works with any descriptor number."""
    watched = select.poll()
    watched.register(fd, select.POLLIN)
    watched.poll(seconds * 1000)


def environment(run: str, extra: Optional[Mapping[str, str]] = None) -> dict[str, str]:
    """Return the environment of a run's processes: the mark of the run, and a locale that parsers can rely on."""
    return {"PATH": TOOL_PATH, "LC_ALL": "C.UTF-8", "TZ": "UTC", MARK: run, **(extra or {})}


def spawn(
    journal: Journal,
    argv: Sequence[str],
    *,
    purpose: str,
    account: Account,
    env: Mapping[str, str],
    directory: Union[str, Path] = "/",
    stdin: int = DEVNULL,
    stdout: Union[IO[bytes], int],
    stderr: IO[bytes],
    group: str = "",
) -> Child:
    """Start `argv` as `account` in a session of its own, and in the control group with the directory `group`.
    HostFailure, with the cause, if it cannot be started. Root starts nothing that another account can change."""
    argv = [*account.wrapper, programs.find(argv[0]), *argv[1:]]
    if account.user is None and os.geteuid() == 0:
        argv = programs.command(argv)
    cause = mmap.mmap(-1, CAUSE_BYTES)  # shared with the child: Popen does not say what its preexec_fn raised

    def before_exec() -> None:
        try:
            journal.starting(purpose, str(directory))
            if group:
                # The child joins the group itself, so that it never uses anything outside. Only root may: so the
                # account changes afterwards, whereas Popen would change it before.
                journal.join(group)
            _become(account)
        except OSError as error:
            where = f" (control group {group})" if group and not error.filename else ""
            cause.write(f"{error}{where}".encode()[:CAUSE_BYTES])
            raise

    try:
        popen = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=str(directory),
            start_new_session=True,
            preexec_fn=before_exec,
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = cause[:].rstrip(b"\0").decode(errors="replace") or error
        raise HostFailure(f"{argv[0]} cannot be started as {account.name}: {reason}", argv=list(argv)) from error
    finally:
        journal.reread()
    return Child(popen, journal.open_processes()[-1])


def _become(account: Account) -> None:
    """Change to the account, in the order of Popen: groups, then gid, then uid, after which neither can change. Of an
    empty list, Popen of Python 3.12.0 keeps our groups (CVE-2023-6507)."""
    if account.owner:
        uid, gid = account.owner
        os.setgroups(account.groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def end(system: System, entry: Record) -> bool:
    """End a recorded process with all of its kind, however it was left. False when something of it still lives."""
    for number, seconds in LADDERS.get(entry["purpose"], CLIENT_LADDER):
        if not _members(system, entry):
            return True
        _signal(system, entry, number)
        if _wait_gone(system, entry, seconds):
            return True
    return False


def _signal(system: System, entry: Record, number: int) -> None:
    if entry["purpose"] != "postgres":
        return system.kill_group(entry["pid"], number)
    if system.is_same(entry["pid"], entry["start"], entry["boot_id"]):
        return system.kill(entry["pid"], number)
    # The postmaster is gone: its orphans leave by themselves, unless they are stuck.
    for process in _members(system, entry):
        system.kill(process.pid, signal.SIGQUIT if number == signal.SIGINT else number)
    return None


def _wait_gone(system: System, entry: Record, seconds: float) -> bool:
    deadline, orphaned = system.mono() + seconds, False
    while members := _members(system, entry):
        if entry["purpose"] == "postgres" and not orphaned and members[0].pid != entry["pid"]:
            # A postmaster ends last. Processes that remain have escaped it, such as a program started by COPY.
            orphaned, deadline = True, min(deadline, system.mono() + ORPHANS_S)
        if system.mono() > deadline:
            return False
        system.sleep(GONE_POLL_S)
    return True


def _members(system: System, entry: Record) -> list[Process]:
    """Living processes of a journal entry: its group, or for a postmaster the processes in its data directory."""
    if entry["boot_id"] != system.boot_id():
        return []
    leader = system.process(entry["pid"])
    if leader and leader.start != entry["start"]:
        return []  # another process has the pid now
    if entry["purpose"] == "postgres":
        if leader and leader.alive:
            return [leader]
        return working_in(system, entry["directory"])
    return [p for p in system.processes() if p.group == entry["pid"] and p.start >= entry["start"]]


def working_in(system: System, directory: str) -> list[Process]:
    """Processes whose working directory it is: of a data directory, exactly its postmaster and children."""
    return [] if directory == "/" else system.processes_in(directory)


def strays(system: System, run: str, theirs: str = "") -> list[Process]:
    """Processes that carry the run's mark, also after double forks and in new sessions, and our orphans; except
    the server of the data directory `theirs`, which is our orphan if we restarted it."""
    mark, us = f"{MARK}={run}", os.getpid()

    def is_one(process: Process) -> bool:
        ours = process.parent == us and us in _adopters and not (theirs and system.cwd(process.pid) == theirs)
        return ours or mark in system.text(f"/proc/{process.pid}/environ").split("\0")

    return [process for process in system.processes() if not process.is_kernel and is_one(process)]


def end_strays(system: System, run: str, theirs: str = "") -> list[Process]:
    """Kill what still carries the mark; what survives even that is returned."""
    deadline = system.mono() + 5.0
    while (left := strays(system, run, theirs)) and system.mono() < deadline:
        for process in left:
            system.kill(process.pid, signal.SIGKILL)
        system.sleep(0.02)
    return left


def adopt_orphans() -> None:
    """Make orphaned descendants, in any session and environment, children of this process from now on."""
    import ctypes

    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    _adopters.add(os.getpid())

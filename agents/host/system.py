"""The one seam to the machine: files of /proc and /sys, clocks, short commands, the table of processes.

Everything else in the agent reads and writes the host through a `System`, so that a test replaces this one class.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

from ..errors import HostFailure
from . import owned, programs
from .output import read_output
from .programs import NOBODY, STRANGER, TOOL_PATH
from .reader import PAGE_BYTES, READ_BYTES, Reader

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KB = PAGE_BYTES // 1024
PF_KTHREAD = 0x00200000  # linux/sched.h
KEXEC_DEFAULTS, NO_KEXEC = "/etc/default/kexec", "/no-kexec-reboot"
OF_KERNEL = re.compile(
    r"(?!.*/\.\.)/(sys/|proc/(sys/|(\d+/)?\w+\Z))", re.DOTALL
).match  # no account can replace these by links
MOST_BYTES = 64 << 20  # of a file that is read whole
OUTPUT_BYTES = 1 << 20  # of a program; `postgres --describe-config` prints 0.2 MiB


@dataclass(frozen=True)
class Process:
    """One line of the process table: /proc/PID/stat. `start` is in clock ticks since boot, `ticks` is utime + stime."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    ticks: int
    start: int
    cpu: int
    is_kernel: bool  # a thread of the kernel, which has no environment

    @property
    def alive(self) -> bool:
        return self.state not in ("Z", "X")


@dataclass(frozen=True)
class Stat:
    """Identifies a file, and its version: it changes with an upgrade."""

    uid: int
    size: int
    mtime_ns: int
    inode: int
    special: bool = False  # a FIFO, socket or device: reading it may never end


@dataclass(frozen=True)
class Finished:
    """A command that ended by itself."""

    argv: list[str]
    code: int
    stdout: str
    stderr: str


def parse_stat(text: str) -> Process:
    """/proc/PID/stat; the name may hold spaces and brackets, so fields are counted from its last ')'."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    f = tail.split()
    ticks = int(f[11]) + int(f[12])
    is_kernel = bool(int(f[6]) & PF_KTHREAD)
    return Process(int(pid), name, f[0], int(f[1]), int(f[2]), ticks, int(f[19]), int(f[36]), is_kernel)


class System:
    """The real machine."""

    def read(self, path: str) -> str:
        """Text of a regular file of at most 64 MiB; OSError as the kernel gives it, or EINVAL, EFBIG."""
        # Files of /proc are read by the hundred each second: the bare calls cost half of what open() does.
        fd = os.open(path, os.O_RDONLY | owned.HARMLESS) if OF_KERNEL(path) else owned.open_regular(path)
        try:
            parts, size = [], 0
            while data := os.read(fd, READ_BYTES):
                parts.append(data)
                size += len(data)
                if size > MOST_BYTES:
                    raise OSError(errno.EFBIG, f"larger than {MOST_BYTES >> 20} MiB", path)
        finally:
            os.close(fd)
        return b"".join(parts).decode("utf-8", errors="replace")

    def reader(self, path: str) -> Reader:
        """A reader of a file that is read each second."""
        return Reader(path)

    def head(self, path: str, size: int) -> str:
        """Read about the first `size` bytes. Of files that the kernel generates on reading, it generates no more."""
        with open(path, "rb", buffering=0) as file:
            return file.read(size).decode(errors="replace")

    def write(self, path: str, text: str) -> None:
        """Write to a file of /proc or /sys: one write call, no truncation games."""
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def make_directory(self, path: str) -> None:
        """Create a directory of a kernel file system, such as a control group. OSError if the kernel refuses."""
        os.mkdir(path)

    def remove_directory(self, path: str) -> None:
        """Remove such a directory; its files are removed with it. OSError if the kernel refuses."""
        os.rmdir(path)

    def hold(self, path: str, data: bytes) -> int:
        """Open a device, write to it and keep it open: a descriptor for the caller to close."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.write(fd, data)
        return fd

    def data(self, path: str, size: int) -> bytes:
        """The first bytes of a file or device, in one read."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, size)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Write everything that waits in memory to its device."""
        os.sync()

    def in_page_cache(self, path: str) -> tuple[int, int]:
        """(bytes of a file, bytes of it in memory). OSError if it cannot be read."""
        from .pagecache import resident

        return resident(path)

    def drop_from_page_cache(self, path: str) -> None:
        """Drop the clean pages of a file that no process maps from the page cache. OSError if the kernel refuses."""
        from .pagecache import drop

        drop(path)

    def reboot(self) -> None:
        """Begin an orderly restart of the host; returns while the shutdown is under way. HostFailure when refused."""
        argv = ["systemctl", "reboot"] if self.exists("/run/systemd/system") else ["/sbin/reboot"]
        done = self.run(argv)
        if done.code:
            raise HostFailure(
                f"{' '.join(argv)} failed: {done.stderr.strip()}", "restart it manually, or plan without restarts"
            )

    def restart_cold(self) -> None:
        """Restart the machine through its firmware and boot loader. Debian's kexec-tools can turn each restart into a
        kexec with the present command line. The file NO_KEXEC, which they remove, prevents that once."""
        snippets = [f"{KEXEC_DEFAULTS}.d/{name}" for name in self.names(f"{KEXEC_DEFAULTS}.d")]
        text = "\n".join(map(self.text, [KEXEC_DEFAULTS, *snippets]))
        if re.findall(r"^\s*LOAD_KEXEC=[\"']?(\w*)", text, re.MULTILINE)[-1:] == ["true"]:
            with open(NO_KEXEC, "w"):
                pass
        self.reboot()

    def command(self, argv: Sequence[str], hint: str) -> None:
        """Run a short command. HostFailure with its output if it fails."""
        done = self.run(argv, limit_s=120.0)
        if done.code:
            raise HostFailure(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}", hint)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def names(self, path: str) -> list[str]:
        """Entries of a directory, sorted; none when it is not there."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def text(self, path: str, default: str = "") -> str:
        """Stripped text of a file that may be absent on this kernel."""
        try:
            return self.read(path).strip()
        except OSError:
            return default

    def link(self, path: str) -> str:
        """Return the target of a symbolic link, unresolved; "" if it is not a link or not readable."""
        try:
            return os.readlink(path)
        except OSError:
            return ""

    def stat(self, path: str) -> Optional[Stat]:
        """The status of the file at a path, or None if it does not exist or cannot be reached."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        special = not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode)
        return Stat(status.st_uid, status.st_size, status.st_mtime_ns, status.st_ino, special)

    def identity(self, program: str) -> Optional[dict[str, Any]]:
        """Keywords of `run` for a program that was found on the host: root runs it only if root alone can change it,
        else the one account that can. None when several can. OSError if it does not exist."""
        if self.euid() != 0:
            return {}
        able = programs.owners(program)
        others = [] if able is None else sorted(able - {0})
        if able is None or len(others) > 1:
            return None
        return {"user": others[0], "group": NOBODY, "groups": ()} if others else {}

    def check_program(self, path: str, accounts: Iterable[int] = ()) -> None:
        """HostFailure if root, or one of these accounts, must not run the program, because another one can change it.
        Nothing to check for an agent that is not root."""
        if self.euid() == 0:
            programs.check(path, {0, *accounts})

    def space(self, path: str) -> Optional[tuple[int, int]]:
        """Return size and available space of the file system at `path`, in kB; None if they cannot be read."""
        try:
            status = os.statvfs(path)
        except OSError:
            return None
        return status.f_blocks * status.f_frsize // 1024, status.f_bavail * status.f_frsize // 1024

    def account(self, uid: int) -> str:
        """Name of an account, or its number where it has none."""
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def machine(self) -> str:
        """The architecture, such as x86_64."""
        return os.uname().machine

    def field(self, path: str, name: str) -> str:
        """Return the value of `name:` in a file such as /proc/PID/status; "" if the file or the line is missing."""
        lines = (line.partition(":") for line in self.text(path).splitlines())
        return next((value.strip() for key, _, value in lines if key == name), "")

    def wall(self) -> float:
        return time.time()

    def mono(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @lru_cache(maxsize=None)  # noqa: B019 - one System lives as long as the program
    def boot_id(self) -> str:
        return self.text("/proc/sys/kernel/random/boot_id", "unknown")

    def machine_id(self) -> str:
        return self.text("/etc/machine-id") or self.text("/var/lib/dbus/machine-id") or self.boot_id()

    def euid(self) -> int:
        return os.geteuid()

    def launcher(self) -> str:
        """The program of an admin that verified and started us; "" where nothing did."""
        return os.environ.get("PROVING_AGENT_LAUNCHER", "")

    def policy(self) -> str:
        """Read the file in which an admin restricts the agent; "" if there is none."""
        path = os.environ.get("PROVING_AGENT_POLICY", "")
        return self.read(path) if path and self.exists(path) else ""

    def level(self) -> str:
        return "root" if self.euid() == 0 else "user"

    def allowed_cpus(self) -> list[int]:
        """Cpus that this process may use: what a container or a cgroup left us."""
        return sorted(os.sched_getaffinity(0))

    def which(self, tool: str) -> str:
        """Absolute path of a tool, or ""."""
        return shutil.which(tool, path=os.environ.get("PATH", "") + ":" + TOOL_PATH) or ""

    def tool(self, name: str, bin_dir: str = "") -> str:
        """Absolute path of a tool: that of `bin_dir` where it has one, else from the PATH. HostFailure for none."""
        own = f"{bin_dir}/{name}"
        path = own if bin_dir and os.access(own, os.X_OK) else self.which(name)
        if not path:
            where = f"neither in {bin_dir} nor on the PATH" if bin_dir else "not on the PATH of this host"
            raise HostFailure(f"{name} is {where}", f"install {name}")
        return path

    def run(
        self,
        argv: Sequence[str],
        *,
        limit_s: float = 30.0,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[int] = None,
        group: Optional[int] = None,
        groups: Sequence[int] = (),
        stdin: str = "",
        most_bytes: int = OUTPUT_BYTES,
    ) -> Finished:
        """Run a short command in its own process group and wait. HostFailure when it is missing, exceeds limit_s or
        prints more than `most_bytes`. Root runs nothing that another account can change."""
        # Of an empty list, Python 3.12.0 keeps our groups (CVE-2023-6507).
        groups = groups or [NOBODY if group is None else group]
        identity: dict[str, Any] = {} if user is None else {"user": user, "group": group, "extra_groups": groups}
        argv = [programs.find(argv[0]), *argv[1:]]
        if user is None and self.euid() == 0:
            argv = programs.command(argv)
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env) if env is not None else None,
                cwd="/",
                start_new_session=True,
                **identity,
            )
        except OSError as error:
            raise programs.missing(argv[0], error) from error
        try:
            out, err = read_output(child, stdin.encode(), limit_s, most_bytes)
        except (subprocess.TimeoutExpired, OverflowError) as error:
            os.killpg(child.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(1.0)
            reason = error if isinstance(error, OverflowError) else f"did not end within {limit_s:g} s"
            raise HostFailure(f"{argv[0]} {reason}", argv=argv) from None
        return Finished(list(argv), child.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def may_access(self, paths: Sequence[str], mode: int, user: Optional[int], group: Optional[int]) -> bool:
        """Whether access(2) of an account (None: ours) to all of these paths succeeds. `mode`: os.X_OK to execute
        programs and enter directories, os.W_OK. False for a uid that a container does not have."""
        pid = os.fork()  # test(1) would take four times as long
        if pid == 0:
            code = 1
            try:
                if user is not None and group is not None:
                    os.setgroups([])
                    os.setresgid(group, group, group)
                    os.setresuid(user, user, user)
                code = 0 if all(os.access(path, mode) for path in paths) else 1
            finally:
                os._exit(code)
        return os.waitpid(pid, 0)[1] == 0

    def run_found(self, argv: Sequence[str], **options: Any) -> Finished:
        """Run a program that was found on the host as the account that identity() names, else as one that owns
        nothing."""
        try:
            identity = self.identity(argv[0])
        except OSError as error:
            raise programs.missing(argv[0], error) from error
        if identity is None:
            identity = {"user": STRANGER, "group": STRANGER, "groups": ()}
        return self.run(argv, **options, **identity)

    def process(self, pid: int) -> Optional[Process]:
        """Return the process with this pid, or None if it does not exist."""
        try:
            return parse_stat(self.read(f"/proc/{pid}/stat"))
        except (OSError, ValueError, IndexError):
            return None

    def processes(self) -> list[Process]:
        """Every process that lives now (zombies do not)."""
        return self._alive(self._pids())

    def processes_in(self, directory: str) -> list[Process]:
        """Those whose working directory it is. Only their lines are read, because machines have hundreds of others."""
        return self._alive(pid for pid in self._pids() if self.cwd(pid) == directory)

    def _pids(self) -> Iterator[int]:
        return (int(name) for name in self.names("/proc") if name.isdigit())

    def _alive(self, pids: Iterable[int]) -> list[Process]:
        processes = (self.process(pid) for pid in pids)
        return [process for process in processes if process and process.alive]

    def children(self, pid: int) -> list[int]:
        """Pids of a process's children."""
        path = f"/proc/{pid}/task/{pid}/children"
        if self.exists(path):
            return [int(child) for child in self.text(path).split()]
        # Kernels without CONFIG_PROC_CHILDREN: the slow way, through the whole table.
        return [process.pid for process in self.processes() if process.parent == pid]

    def cpu_s(self, pid: int) -> float:
        """CPU time of a process with one thread, 0 if it has ended; in ns if the scheduler reports that."""
        fields = self.text(f"/proc/{pid}/schedstat").split()
        if fields and fields[0] != "0":
            return int(fields[0]) / 1e9
        process = self.process(pid)
        return process.ticks / CLOCK_TICKS if process else 0.0

    def is_same(self, pid: int, start: int, boot_id: str) -> bool:
        """Whether the process once recorded still lives; a reused pid has another start time."""
        process = self.process(pid) if boot_id == self.boot_id() else None
        return bool(process and process.alive and process.start == start)

    def pidfd(self, pid: int) -> Optional[int]:
        """A descriptor that can be read when the process has ended; None when it has, or on kernels before 5.3."""
        try:
            return os.pidfd_open(pid)
        except (OSError, AttributeError):
            return None

    def cwd(self, pid: int) -> str:
        return self.link(f"/proc/{pid}/cwd")

    def kill(self, pid: int, number: int) -> None:
        """Signal one process; one that is gone already is fine."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    def kill_group(self, group: int, number: int) -> None:
        """Signal a process group; one that is gone already is fine."""
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return

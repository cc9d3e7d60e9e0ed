"""Everything that a run could leave changed on a host, as one flat JSON object: name -> text.

Standard library only, Python >= 3.9, so that it can be sent to a host as text:  python3 - DIRECTORY... < snapshot.py
Names are paths for the kernel's tunables and for files; "mounts", "loop devices" and "process PID" for the rest. It
lists the entries of each DIRECTORY (type, mode, owner, and the sha256 of files), and each process that works below it,
names it in its arguments, or carries a run's mark.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TREES = (
    "/proc/sys",
    "/sys/kernel/mm",
    "/sys/block/*/queue",
    "/sys/class/bdi/*",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node/node*/hugepages",
    "/sys/devices/system/clocksource/clocksource0",
)
# Values that change by themselves or count events, with the reason. Runs neither set nor restore them.
VOLATILE = {
    "/proc/sys/fs/aio-nr": "counts requests in flight",
    "/proc/sys/fs/dentry-state": "counts cached names",
    "/proc/sys/fs/file-nr": "counts open files",
    "/proc/sys/fs/inode-nr": "counts cached inodes",
    "/proc/sys/fs/inode-state": "counts cached inodes",
    "/proc/sys/fs/quota/*": "counts quota operations",
    "/proc/sys/kernel/ns_last_pid": "the newest pid",
    "/proc/sys/kernel/perf_event_max_sample_rate": "lowered by the kernel when sampling takes too long",
    "/proc/sys/kernel/pty/nr": "counts terminals",
    "/proc/sys/kernel/random/entropy_avail": "the state of the random generator",
    "/proc/sys/kernel/random/uuid": "another at each read",
    "/proc/sys/kernel/tainted": "what the kernel has gone through",
    "/proc/sys/net/ipv*/*/veth*": "comes and goes with containers",
    "/proc/sys/net/netfilter/nf_conntrack_count": "counts connections",
    "/proc/sys/vm/stat_refresh": "an order, not a value",
    "/sys/devices/system/cpu/*/cpuidle/state*/above": "counts sleeps",
    "/sys/devices/system/cpu/*/cpuidle/state*/below": "counts sleeps",
    "/sys/devices/system/cpu/*/cpuidle/state*/rejected": "counts sleeps",
    "/sys/devices/system/cpu/*/cpuidle/state*/time": "counts sleeps",
    "/sys/devices/system/cpu/*/cpuidle/state*/usage": "counts sleeps",
    "/sys/devices/system/cpu/*/cpuidle/state*/s2idle/*": "counts sleeps",
    "/sys/devices/system/cpu/*/power/runtime_*": "counts time",
    "/sys/devices/system/cpu/*/thermal_throttle/*": "counts throttling",
    "/sys/devices/system/cpu/*/*cpufreq/*_cur_freq": "the clock of this moment",
    "/sys/devices/system/cpu/cpufreq/*_cur_freq": "the clock of this moment",
    "/sys/devices/system/cpu/cpufreq/*/*_cur_freq": "the clock of this moment",
    "/sys/devices/system/cpu/*/cpufreq/stats/*": "counts changes of the clock",
    "/sys/devices/system/cpu/*/cpufreq/*cur_freq": "the clock of this moment",
    "/sys/devices/system/cpu/*/acpi_cppc/*": "counts cycles",
    "/sys/devices/system/cpu/*/microcode/reload": "an order, not a value",
    "/sys/kernel/mm/hugepages/*/free_hugepages": "counts pages in use",
    "/sys/kernel/mm/hugepages/*/resv_hugepages": "counts pages promised",
    "/sys/kernel/mm/hugepages/*/surplus_hugepages": "counts pages lent",
    "/sys/devices/system/node/*/hugepages/*/free_hugepages": "counts pages in use",
    "/sys/devices/system/node/*/hugepages/*/surplus_hugepages": "counts pages lent",
    "/sys/kernel/mm/damon/admin/*": "services of the machine observe its memory at any time",
    "/sys/kernel/mm/ksm/*pages_*ed": "counts pages",
    "/sys/kernel/mm/ksm/pages_sharing": "counts pages",
    "/sys/kernel/mm/ksm/pages_volatile": "counts pages",
    "/sys/kernel/mm/ksm/ksm_zero_pages": "counts pages",
    "/sys/kernel/mm/ksm/general_profit": "counts pages",
    "/sys/kernel/mm/ksm/full_scans": "counts scans",
    "/sys/kernel/mm/ksm/stable_node_*": "counts pages",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans": "counts scans",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed": "counts pages",
    "/sys/kernel/mm/transparent_hugepage/hugepages-*/stats/*": "counts pages",
    "/sys/class/bdi/*/power/*": "counts time",
    "/sys/class/bdi/*/m??_bytes": "shares of what memory is free at this moment",
}  # fmt: skip
_VOLATILE = re.compile("|".join(map(fnmatch.translate, VOLATILE)))
POOLS = ("nr_hugepages", "nr_hugepages_mempolicy")
MARK = b"PROVING_GROUND_RUN="
CHUNK = 1 << 14  # bytes of a read: for each one below /proc/sys, the kernel allocates and zeroes as many
LATENCY = "/dev/cpu_dma_latency"
Snapshot = dict[str, str]
# Somebody else's change of the same machine goes by; what a run left does not.
PATIENCE_S, PAUSE_S = 60.0, 2.0


def take(directories: Iterable[str] = ()) -> Snapshot:
    """The host as it is now."""
    state: Snapshot = {}
    for tree in TREES:
        for root in _expand(tree):
            state.update(_tunables(root))
    for directory in directories:
        state.update(_entries(directory))
        state.update(_processes(directory))
    state["mounts"] = Path("/proc/self/mounts").read_text()
    state["loop devices"] = " ".join(path.parts[3] for path in _expand("/sys/block/loop*/loop/backing_file"))
    state.update(_latency())
    return state


def differences(before: Snapshot, after: Snapshot) -> dict[str, tuple[str | None, str | None]]:
    """What is not the same: name -> (before, after), None where there was, or is, none."""
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def left(before: Snapshot, take_snapshot: Callable[[], Snapshot], patience_s: float = PATIENCE_S) -> list[str]:
    """Names of values that differ from before in every snapshot: others may change a value for a moment."""
    deadline = time.monotonic() + patience_s
    names = set(differences(before, take_snapshot()))
    while names and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        names &= set(differences(before, take_snapshot()))
    return sorted(names)


def _expand(pattern: str) -> list[Path]:
    return sorted(path for path in Path("/").glob(pattern[1:]) if not _is_detached(path))


def _is_detached(queue: Path) -> bool:
    """Whether this is the queue of a loop device without a file. The kernel resets it with the next file."""
    device = queue.parent
    return device.match("/sys/block/loop*") and not (device / "loop").exists()


def _tunables(root: Path) -> Iterator[tuple[str, str]]:
    """Every readable file below a directory of the kernel. Symbolic links are skipped, because their targets are read
    elsewhere."""
    for path, _, names in os.walk(root):
        for name in names:
            file = f"{path}/{name}"
            if not _VOLATILE.match(file):
                text = _read(file)
                if text is not None:
                    yield file, _configured(path, text) if name in POOLS else text


def _configured(directory: str, total: str) -> str:
    """The size of a pool of huge pages, without those that a program still uses beyond it: PostgreSQL of another test
    takes pages where there are some, and the kernel counts them here until it ends."""
    surplus = _read(f"{directory}/surplus_hugepages")
    return f"{int(total) - int(surplus)}\n" if surplus else total


def _read(file: str) -> str | None:
    """None for what cannot be read: an order such as drop_caches, or a value that this machine does not have."""
    try:
        with open(file, "rb", buffering=0) as opened:
            return b"".join(iter(lambda: opened.read(CHUNK), b"")).decode(errors="backslashreplace")
    except OSError:
        return None


def _entries(directory: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        about = entry.stat(follow_symlinks=False)
        what = f"{stat.filemode(about.st_mode)} {about.st_uid}:{about.st_gid}"
        if entry.is_symlink():
            what += f" {os.readlink(entry.path)}"
        elif entry.is_file():
            what += f" {hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()}"
        yield entry.path, what


def _processes(directory: str) -> Iterator[tuple[str, str]]:
    above = set(_above(os.getpid()))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in above:
            continue
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            works = os.readlink(f"/proc/{pid}/cwd").startswith(directory)
        except OSError:
            continue  # it ended meanwhile, or belongs to another user
        marks = [entry for entry in environment if entry.startswith(MARK)]
        if marks or works or directory.encode() in argv:
            yield f"process {pid}", b" ".join([*marks, *argv.split(b"\0")]).decode(errors="backslashreplace").strip()


def _above(pid: int) -> Iterator[int]:
    """This process and its ancestors: a shell that runs this script is not part of the run."""
    while pid:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _latency() -> Iterator[tuple[str, str]]:
    """The latency limit of PM QoS for processors in microseconds: the smallest of all requests."""
    try:
        with open(LATENCY, "rb") as device:
            yield LATENCY, str(struct.unpack("i", device.read(4))[0])
    except (OSError, struct.error):
        return


if __name__ == "__main__":
    json.dump(take(sys.argv[1:]), sys.stdout, indent=0, sort_keys=True)

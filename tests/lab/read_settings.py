"""Reads every setting of a host: runs there, as root, and prints JSON of {what: value}."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

VARIABLES = "/sys/firmware/efi/efivars"
NODES = "/sys/devices/system/node"
VALUES = ("/proc/sys/vm", "/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/hugepages")
SINGLE = ("/proc/sys/kernel/numa_balancing", "/proc/sys/kernel/sched_autogroup_enabled")
QUEUE = ("scheduler", "read_ahead_kb", "nr_requests")
UNITS = ("/etc/systemd/system", "/run/systemd/system", "/lib/systemd/system")
OWNED = ("/etc/postgresql", *UNITS, "/etc/sysctl.d", "/etc/tuned", "/boot")
# Counters; and a value that the kernel computes at each boot from the memory that is free at that moment.
OWN_LIFE = ("full_scans", "pages_collapsed", "user_reserve_kbytes")
# Of the firmware: which loader and which entry start next. The others are of this boot, or the firmware's own.
OF_LOADERS = ("BootOrder", "BootNext", "LoaderEntryDefault", "LoaderEntryLastBooted", "LoaderEntryOneShot")
OF_BOOT = "systemd-fsckd"  # ends by itself half a minute after the check of the root file system
RUNNING = ("list-units", "--type=service", "--state=running", "--no-legend", "--no-pager", "--plain")


def below(root: str) -> list[Path]:
    return [Path(folder, name) for folder, _, names in os.walk(root) for name in names if name not in OWN_LIFE]


def value(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        return f"not readable: {error.errno}"


def file(path: Path) -> str:
    """Content, mode and owner."""
    stat = path.lstat()
    content = os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{content} {stat.st_mode:o} {stat.st_uid}:{stat.st_gid}"


def read_settings() -> dict[str, object]:
    roots = [*VALUES, *(f"{NODES}/{node}/hugepages" for node in os.listdir(NODES))]
    kernel = [path for root in roots for path in below(root)] + [Path(path) for path in SINGLE]
    kernel += [Path("/sys/block", disk, "queue", name) for disk in os.listdir("/sys/block") for name in QUEUE]
    settings: dict[str, object] = {str(path): value(path) for path in kernel}
    settings.update({str(path): file(path) for root in OWNED for path in below(root)})
    variables = [path for path in below(VARIABLES) if path.name.startswith(OF_LOADERS)]
    settings.update({str(path): path.read_bytes().hex() for path in variables})
    running = subprocess.run(["systemctl", *RUNNING], capture_output=True, text=True, timeout=120, check=True).stdout
    others = [line.split()[0] for line in running.splitlines() if not line.startswith(("user@", OF_BOOT))]
    settings["running services"] = sorted(others)
    return settings


json.dump(read_settings(), sys.stdout)

"""A full look at the settings of a host: runs there, as root, and prints JSON of {what: value}."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

TREES = ("/proc/sys/vm", "/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/hugepages")
NODES = "/sys/devices/system/node"
BARE = ("--no-legend", "--no-pager", "--plain")
FILES = ("/proc/sys/kernel/numa_balancing", "/proc/sys/kernel/sched_autogroup_enabled")
COUNTERS = ("full_scans", "pages_collapsed")  # of khugepaged: nobody sets them
OWNED = ("/etc/postgresql", "/etc/systemd/system", "/etc/sysctl.d", "/etc/tuned")


def values(root: str) -> dict:
    found = {}
    for folder, _, names in os.walk(root):
        for name in set(names) - set(COUNTERS):
            path = os.path.join(folder, name)
            try:
                found[path] = Path(path).read_text().strip()
            except OSError as error:
                found[path] = f"not readable: {error.errno}"
    return found


def files(root: str) -> dict:
    """Content, mode and owner of every file below."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            seen = path.lstat()
            content = os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = f"{content} {seen.st_mode:o} {seen.st_uid}:{seen.st_gid}"
    return found


def lines(*argv: str) -> list:
    return sorted(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines())


def look() -> dict:
    seen = {path: Path(path).read_text().strip() for path in FILES if os.path.exists(path)}
    for root in (
        *TREES,
        *(f"/sys/devices/system/node/{node}/hugepages" for node in os.listdir("/sys/devices/system/node")),
    ):
        seen.update(values(root))
    for disk in os.listdir("/sys/block"):
        for name in ("scheduler", "read_ahead_kb", "nr_requests"):
            path = Path("/sys/block", disk, "queue", name)
            seen[str(path)] = path.read_text().strip() if path.exists() else ""
    for root in OWNED:
        seen.update(files(root))
    seen["unit files"] = lines("systemctl", "list-unit-files", "--no-legend", "--no-pager", "--plain")
    running = lines(
        "systemctl", "list-units", "--type=service", "--state=running", "--no-legend", "--no-pager", "--plain"
    )
    seen["running services"] = [line.split()[0] for line in running if not line.startswith("user@")]
    return seen


json.dump(look(), sys.stdout)

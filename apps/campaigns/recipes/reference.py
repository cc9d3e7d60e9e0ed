"""Facts of a host that supports every recipe. Recipes are checked with them before a host is chosen."""

from __future__ import annotations

from typing import Any

GB_KB = 1024 * 1024
BIN_DIR = "/usr/lib/postgresql/18/bin"
_TOOLS = ["initdb", "pg_test_fsync", "pg_test_timing", "pgbench", "postgres", "psql"]
_PAGES = {"total": 0, "free": 0, "per_node": {"0": 0, "1": 0}}

# Two nodes of four CPUs, 64 GB, a disk with two schedulers, two sizes of huge pages, two versions of PostgreSQL.
REFERENCE: dict[str, Any] = {
    "level": "root",
    "cpus": {
        "allowed": "0-7",
        "topology": [{"cpu": cpu, "core": cpu % 4, "socket": cpu // 4, "node": cpu // 4} for cpu in range(8)],
    },
    "numa": {
        "nodes": [{"id": node, "cpus": f"{node * 4}-{node * 4 + 3}", "mem_kb": 32 * GB_KB} for node in (0, 1)],
        "distances": [[10, 20], [20, 10]],
    },
    "memory": {"total_kb": 64 * GB_KB, "available_kb": 60 * GB_KB},
    "limits": {},
    "cgroup": {"controllers": ["cpu", "cpuset", "io", "memory"], "legacy": [], "problem": ""},
    "huge_pages": {"default_kb": 2048, "sizes": [{"kb": 2048, **_PAGES}, {"kb": GB_KB, **_PAGES}]},
    "transparent_huge_pages": {
        "choices": {"enabled": ["always", "madvise", "never"], "shmem_enabled": ["always", "never"]},
    },
    "block_devices": [
        {
            "name": "sda",
            "scheduler": "none",
            "schedulers": ["none", "mq-deadline"],
            "read_ahead_kb": 128,
            "holders": [],
            "mounted_on": ["/"],
            "partitions": [],
        }
    ],
    "file_systems": [{"mounted_on": "/", "device": "/dev/sda", "type": "ext4", "free_kb": 500 * GB_KB}],
    "directories": ["/var/lib/proving-ground"],
    "postgresql": [
        {"bin_dir": BIN_DIR.replace("18", str(major)), "version": f"{major}.1", "major": major, "tools": _TOOLS}
        for major in (17, 18)
    ],
}

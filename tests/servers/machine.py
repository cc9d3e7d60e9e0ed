"""Facts of a simulated machine: two sockets of four cores with two threads each, two nodes."""

from __future__ import annotations

from typing import Any

SERVER_TOOLS = ["postgres", "initdb", "pg_ctl", "psql", "pgbench", "pg_test_fsync", "pg_test_timing", "pg_basebackup"]
BIN_DIR = "/usr/lib/postgresql/17/bin"
PAIRS = [f"{core},{core + 8}" for core in range(8)]


CLUSTER: dict[str, Any] = {
    "name": "17/main",
    "version": "17.6",
    "major": 17,
    "data_dir": "/var/lib/postgresql/17/main",
    "port": 5432,
    "running": True,
    "pid": 1201,
    "owner": "postgres",
    "config_file": "/etc/postgresql/17/main/postgresql.conf",
    "unit": "postgresql@17-main.service",
    "bin_dir": BIN_DIR,
    "has_include_dir": "/etc/postgresql/17/main/conf.d",
    "include": "/etc/postgresql/17/main/conf.d/zz_proving_ground.conf",
    "found_by": ["process", "debian", "directory"],
}


def facts(**changes: Any) -> dict[str, Any]:
    """In the shape that agents.facts documents; keywords replace whole sections."""
    whole = {
        "level": "root",
        "euid": 0,
        "hostname": "bench-01",
        "os": {"id": "debian", "version": "13", "pretty": "Debian GNU/Linux 13 (trixie)"},
        "kernel": kernel(),
        "firmware": {
            "sys_vendor": "Dell Inc.",
            "product_name": "PowerEdge R640",
            "bios_vendor": "Dell Inc.",
            "bios_version": "2.21.0",
            "bios_date": "11/21/2023",
            "microcode": "0x2007006",
        },
        "machine_id": "0123456789abcdef0123456789abcdef",
        "boot_id": "b1",
        "python": "3.13.5",
        "virtualization": "",
        "cpus": _cpus(),
        "numa": {
            "nodes": [
                {"id": 0, "cpus": "0-3,8-11", "mem_kb": 32_800_000, "free_kb": 21_000_000},
                {"id": 1, "cpus": "4-7,12-15", "mem_kb": 33_000_000, "free_kb": 29_000_000},
            ],
            "distances": [[10, 21], [21, 10]],
        },
        "memory": {"total_kb": 65_800_000, "available_kb": 60_000_000, "free_kb": 50_000_000, "swap_kb": 0},
        "huge_pages": {"default_kb": 2048, "sizes": [_pool(2048), _pool(1048576)]},
        "transparent_huge_pages": {
            "enabled": "madvise",
            "defrag": "madvise",
            "shmem_enabled": "never",
            "choices": {"enabled": ["always", "madvise", "never"], "defrag": ["always", "madvise", "never"]},
        },
        "sysctls": {"vm.swappiness": "60", "kernel.numa_balancing": "1", "net.core.somaxconn": "4096"},
        **_devices(),
        "limits": {"pids_max": 154_000},
        "boot": {"kexec": "/usr/sbin/kexec", "image": "/boot/vmlinuz", "initrd": "/boot/initrd.img", "problem": ""},
        "cgroup": {
            "version": "2",
            "controllers": ["cpu", "cpuset", "io", "memory"],
            "legacy": [],
            "mount": "/sys/fs/cgroup",
            "manager": "systemd",
            "problem": "",
        },
        **_software(),
    }
    return whole | changes


def kernel(**changes: str) -> dict[str, Any]:
    base = {"release": "6.12.48-amd64", "version": "#1 SMP PREEMPT_DYNAMIC Debian", "arch": "x86_64"}
    return base | {"cmdline": "quiet", "clocksource": "tsc", "mitigations": {"meltdown": "Not affected"}} | changes


def _cpus() -> dict[str, Any]:
    caches = [(1, "Data", 32, PAIRS), (1, "Instruction", 32, PAIRS), (2, "Unified", 1024, PAIRS)]
    caches += [(3, "Unified", 25_344, ["0-3,8-11", "4-7,12-15"])]
    policy = {"cpus": "0-15", "driver": "intel_cpufreq", "governor": "performance"}
    policy |= {"governors": ["performance", "schedutil"], "min_khz": 1_200_000, "max_khz": 3_700_000}
    states = (("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 133))
    return {
        "online": "0-15",
        "allowed": "0-15",
        "sockets": 2,
        "cores": 8,
        "threads": 16,
        "smt": "on",
        "model": "Intel(R) Xeon(R) Gold 6134 CPU @ 3.20GHz",
        "topology": [
            {"cpu": cpu, "socket": cpu % 8 // 4, "core": cpu % 4, "node": cpu % 8 // 4, "siblings": PAIRS[cpu % 8]}
            for cpu in range(16)
        ],
        "caches": [{"level": level, "type": kind, "kb": kb, "shared": shared} for level, kind, kb, shared in caches],
        "frequency": {"boost": True, "pstate": "passive", "policies": [policy]},
        "idle": {
            "driver": "intel_idle",
            "governor": "menu",
            "states": [{"name": name, "latency_us": us, "disabled": False} for name, us in states],
            "dma_latency": True,
        },
    }


def _pool(kb: int) -> dict[str, Any]:
    none = {"0": 0, "1": 0}
    counts = {"total": 0, "free": 0, "surplus": 0, "reserved": 0, "overcommit": 0}
    return {"kb": kb, **counts, "per_node": none, "free_per_node": none, "surplus_per_node": none}


def _disk(name: str, model: str, kb: int, scheduler: str, **more: Any) -> dict[str, Any]:
    queue = {"scheduler": scheduler, "schedulers": ["none", "mq-deadline"], "read_ahead_kb": 128, "nr_requests": 1023}
    sectors = {"write_cache": "write back", "logical_block_bytes": 512, "physical_block_bytes": 4096}
    none: dict[str, Any] = {"holders": [], "mounted_on": [], "partitions": []}
    return {"name": name, "model": model, "kb": kb, **queue, **sectors, "rotational": False, **none, **more}


def _devices() -> dict[str, Any]:
    root = [{"name": "sda1", "kb": 468_000_000, "holders": [], "mounted_on": ["/"]}]
    nvme = _disk("nvme0n1", "SAMSUNG MZQL23T8HCLS-00A07", 3_750_738_264, "none", mounted_on=["/srv/pg"], node=1)
    sata = _disk("sda", "INTEL SSDSC2KB48", 468_851_544, "mq-deadline", queue_depth=32, partitions=root)
    systems = [
        ("/", "/dev/sda1", "ext4", ["rw", "relatime"], 459_000_000, 401_000_000),
        ("/srv/pg", "/dev/nvme0n1", "xfs", ["rw", "noatime"], 3_748_000_000, 2_100_000_000),
        ("/dev/shm", "tmpfs", "tmpfs", ["rw", "nosuid", "nodev"], 32_900_000, 32_900_000),
    ]
    names = ("mounted_on", "device", "type", "options", "kb", "free_kb")
    return {
        "block_devices": [nvme, sata],
        "file_systems": [dict(zip(names, system, strict=True)) for system in systems],
        "network": [
            {"name": "eno1", "state": "up", "mtu": 1500, "speed_mbit": 25_000, "driver": "bnxt_en", "node": 0},
            {"name": "eno2", "state": "down", "mtu": 1500, "driver": "bnxt_en", "node": 0},
        ],
    }


def _software() -> dict[str, Any]:
    versions = {"taskset": "2.41", "numactl": "2.0.19", "fio": "3.39", "psql": "17.6", "pgbench": "17.6"}
    return {
        "tools": {name: {"path": f"/usr/bin/{name}", "version": version} for name, version in versions.items()},
        "postgresql": [{"bin_dir": BIN_DIR, "version": "17.6", "major": 17, "tools": SERVER_TOOLS}],
        "clusters": [CLUSTER],
    }

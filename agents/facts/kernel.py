"""The kernel, its parameters, the distribution around it, and the machine or the hypervisor below it."""

from __future__ import annotations

import re
from typing import Any

from ..host.system import System
from .cpu import microcode
from .read import CPUS, known

DMI = "/sys/class/dmi/id"
# Directory -> which of its files are settings. What counts, acts when it is read, is tuned by the kernel itself, drawn
# at boot or a secret is left out.
SYSCTLS = {
    "vm": r"(?!compact_memory|drop_caches|stat_refresh|nr_pdflush_threads|nr_hugepages_mempolicy)\w+",
    "kernel": r"sched_\w+|numa_\w+|shm(all|max|mni|_rmid_forced)|sem|msgm\w+|pid_max|threads-max|core_pattern|"
    r"perf_event_(mlock_kb|paranoid)|randomize_va_space|(nmi_|soft)?watchdog|watchdog_\w+|timer_migration|"
    r"io_uring_\w+|hung_task_timeout_secs|kptr_restrict|unprivileged_\w+",
    "fs": r"aio-max-nr|file-max|nr_open",
    "net/core": r"somaxconn|[rw]mem_\w+|optmem_max|netdev_(?!rss_key)\w+|dev_weight|busy_\w+|default_qdisc|"
    r"rps_sock_flow_entries",
    "net/ipv4": r"tcp_(?!fastopen_key|available_ulp)\w+|ip_local_port_range|udp_mem",
}
# The scheduler's own, which moved out of sysctl with Linux 5.13.
SCHED_DEBUG = "/sys/kernel/debug/sched"
VENDORS = {
    "QEMU": "qemu", "VMware, Inc.": "vmware", "Amazon EC2": "amazon", "Google": "google", "Xen": "xen",
    "innotek GmbH": "virtualbox", "Bochs": "bochs", "OpenStack Foundation": "openstack", "Nutanix": "nutanix",
    "Red Hat": "kvm", "oVirt": "kvm", "DigitalOcean": "digitalocean", "Hetzner": "hetzner", "Alibaba Cloud": "alibaba",
}  # fmt: skip


def kernel(system: System) -> dict[str, Any]:
    names = system.names(f"{CPUS}/vulnerabilities")
    return {
        "release": system.text("/proc/sys/kernel/osrelease"),
        "version": system.text("/proc/sys/kernel/version"),
        "arch": system.machine(),
        "cmdline": system.text("/proc/cmdline"),
        **known([("clocksource", system.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"))]),
        "mitigations": known((name, system.text(f"{CPUS}/vulnerabilities/{name}")) for name in names),
        "sched": known(
            (name, system.text(f"{SCHED_DEBUG}/{name}"))
            for name in system.names(SCHED_DEBUG)
            if re.fullmatch(r"\w+_ns|nr_migrate|tunable_scaling|preempt", name)
        ),
    }


def sysctls(system: System) -> dict[str, str]:
    """Return readable sysctls by their dotted names, with single spaces between numbers."""
    values = {}
    for directory, pattern in SYSCTLS.items():
        for name in system.names(f"/proc/sys/{directory}"):
            if re.fullmatch(pattern, name):
                values[f"{directory}.{name}".replace("/", ".")] = _single(system.text(f"/proc/sys/{directory}/{name}"))
    return {name: value for name, value in values.items() if value}


def _single(text: str) -> str:
    return " ".join(text.split())


def distribution(system: System) -> dict[str, str]:
    pairs = (line.partition("=") for line in system.text("/etc/os-release").splitlines())
    release = {key: value.strip("\"'") for key, _, value in pairs}
    return {
        "id": release.get("ID", ""),
        "version": release.get("VERSION_ID", ""),
        "pretty": release.get("PRETTY_NAME", ""),
        **known([("tuned_profile", system.text("/etc/tuned/active_profile"))]),
    }


def firmware(system: System) -> dict[str, str]:
    """The DMI data of the machine, and the microcode; {} in most containers."""
    names = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")
    return known([*((name, system.text(f"{DMI}/{name}")) for name in names), ("microcode", microcode(system))])


def virtualization(system: System) -> str:
    """Container and hypervisor as far as files show, such as "docker in qemu"; "" on bare metal."""
    return " in ".join(filter(None, (_container(system), _hypervisor(system))))


def _container(system: System) -> str:
    marks = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
    declared = system.text("/run/systemd/container")
    return declared or next((name for path, name in marks.items() if system.exists(path)), "")


def _hypervisor(system: System) -> str:
    vendor, product = system.text(f"{DMI}/sys_vendor"), system.text(f"{DMI}/product_name")
    if (vendor, product) == ("Microsoft Corporation", "Virtual Machine"):
        return "hyper-v"
    named = "" if product.endswith(".metal") else VENDORS.get(vendor, "")
    kind = system.text("/sys/hypervisor/type") or named
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", system.text("/proc/cpuinfo"), re.MULTILINE)
    return kind or ("hypervisor" if flags else "")

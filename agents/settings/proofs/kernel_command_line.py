"""Proofs that parameters of the kernel's command line are in effect: the line, the boot, and their effects."""

from __future__ import annotations

import re
from typing import Any, Iterator, Optional

from ...host import cpulist
from ...host.cmdline import FILE, name_of, values
from ...host.system import System
from ..base import Proof, current

CPUS = "/sys/devices/system/cpu"
ISOLATED, NOHZ_FULL, FLAWS = f"{CPUS}/isolated", f"{CPUS}/nohz_full", f"{CPUS}/vulnerabilities"
HUGE = "/sys/kernel/mm/hugepages"
NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
VERSION, RELEASE = "/proc/sys/kernel/version", "/proc/sys/kernel/osrelease"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
# Parameter -> the kernel file that changes the same at run time.
CONTROLS = {"transparent_hugepage": THP, "numa_balancing": NUMA_BALANCING}
MISSING = "missing"
SWITCHES = {"enable": "1", "disable": "0"}
# Mitigations that no parameter switches off: the layout of page tables, and what the microcode has locked.
_FIXED = re.compile(r"PTE Inversion|\(locked\)").search
_UNITS = {"K": 1, "M": 1 << 10, "G": 1 << 20}


def prove(system: System, requested: Any, wanted: list[str], boot: Optional[dict[str, Any]]) -> list[Proof]:
    """`boot`: the journal's record of the boot that the run caused; None if the parameters were in effect before."""
    line = system.text(FILE)
    effective = values(line)
    missing = [each for each in wanted if effective.get(name_of(each)) != each.partition("=")[2]]
    in_effect = " ".join(each for each in wanted if each not in missing)
    proofs = [Proof(FILE, " ".join(wanted), in_effect, not missing, {"source": FILE, "line": line})] if wanted else []
    return [*proofs, *_of_boot(system, boot, requested.get("kernel", "")), *_caused(system, requested)]


def _of_boot(system: System, boot: Optional[dict[str, Any]], kernel: str) -> Iterator[Proof]:
    if kernel:
        evidence = {"source": RELEASE, "build": system.text(VERSION)}
        yield _equal("kernel", kernel, system.text(RELEASE), evidence)
    if boot is None:
        return
    before, now, version = boot["boot_id"], system.boot_id(), system.text(VERSION)
    evidence = {"source": BOOT_ID, "boot_with": boot.get("way", "kexec")}
    yield Proof("boot", f"another than {before}", now, now != before, evidence)
    if kernel in ("", boot.get("release", "")):
        yield Proof("kernel build", boot["version"], version, version == boot["version"], {"source": VERSION})


def _caused(system: System, requested: Any) -> Iterator[Proof]:
    isolated, nohz_full = isolated_by(requested), requested.get("nohz_full", "")
    if isolated:
        yield _equal("isolated CPUs", _rendered(isolated), system.text(ISOLATED, MISSING), {"source": ISOLATED})
    if nohz_full:
        yield _equal("nohz_full CPUs", _rendered(nohz_full), system.text(NOHZ_FULL, MISSING), {"source": NOHZ_FULL})
    if "hugepages" in requested:
        yield _pages(system, requested)
    if "transparent_hugepage" in requested:
        yield _equal(THP, requested["transparent_hugepage"], _chosen(system, THP), {"source": THP})
    if "numa_balancing" in requested:
        wanted = SWITCHES[requested["numa_balancing"]]
        yield _equal(NUMA_BALANCING, wanted, _chosen(system, NUMA_BALANCING), {"source": NUMA_BALANCING})
    if requested.get("mitigations") == "off":
        yield _mitigations(system)
    for module in ("processor", "intel_idle"):
        if "max_cstate" in requested.get(module, {}):
            path, wanted = f"/sys/module/{module}/parameters/max_cstate", str(requested[module]["max_cstate"])
            evidence = {"source": f"/sys/module/{module}/parameters/max_cstate"}
            yield _equal(path, wanted, system.text(path, MISSING), evidence)


def _equal(subject: str, wanted: str, found: str, evidence: dict[str, Any]) -> Proof:
    return Proof(subject, wanted, found, found == wanted, evidence)


def _rendered(listed: str) -> str:
    return cpulist.render(cpulist.parse(listed))


def _chosen(system: System, path: str) -> str:
    return current(system, path) if system.exists(path) else MISSING


def _pages(system: System, requested: Any) -> Proof:
    kb = kb_of(requested.get("hugepagesz") or requested.get("default_hugepagesz", ""))
    kb = kb or int(system.field("/proc/meminfo", "Hugepagesize").split()[0])
    path, wanted = f"{HUGE}/hugepages-{kb}kB/nr_hugepages", requested["hugepages"]
    pages, evidence = int(system.text(path, "0")), {"source": f"{HUGE}/hugepages-{kb}kB/nr_hugepages"}
    return Proof(path, f"at least {wanted}", pages, pages >= wanted, evidence)


def _mitigations(system: System) -> Proof:
    files = {name: system.text(f"{FLAWS}/{name}") for name in system.names(FLAWS)}
    active = [f"{name}: {text}" for name, text in files.items() if text.startswith("Mitigation") and not _FIXED(text)]
    return Proof("mitigations", "none active", active or "none active", not active, {"source": FLAWS, "files": files})


def isolated_by(requested: Any) -> str:
    """The CPUs that isolcpus removes from the scheduler; "" if its flags do not include domain."""
    parts = requested.get("isolcpus", "").split(",")
    flags = [part for part in parts if not part[:1].isdigit()]
    return ",".join(part for part in parts if part[:1].isdigit()) if not any(flags) or "domain" in flags else ""


def kb_of(text: str) -> int:
    """ "1G" -> 1048576; "" -> 0."""
    return int(text[:-1]) * _UNITS[text[-1]] if text else 0

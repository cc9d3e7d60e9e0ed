"""Parameters of the kernel's command line, and another kernel. The host boots with them for a run, and with its own
command line and kernel afterwards."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..host import cmdline, cpulist
from ..host.loaders import LOADERS, grub
from ..host.system import System
from ..wire.protocol import BOOT
from .base import Facts, Plan, Proof, Scene, Setting
from .proofs.kernel_command_line import CONTROLS, RELEASE, SWITCHES, isolated_by, kb_of, prove

NAME = BOOT
BOOT_LIMIT_S, CONTACT_LIMIT_S = 1800, 900
KEXEC = "kexec"
MOST_MEMORY = 0.8  # of the host's, in huge pages: the kernel cannot free them for anything else
_LIST, _END = r"\d+(-\d+)?(,\d+(-\d+)?)*", r"$(?!\n)"  # Python's $ also stands before a last line break
_CPUS = {"type": "string", "pattern": f"^{_LIST}{_END}"}
_SIZE = {"type": "string", "pattern": rf"^[1-9]\d*[KMG]{_END}"}
_SECONDS = {"type": "number", "maximum": 86400}


def _states(module: str) -> dict[str, Any]:
    deepest = {"type": "integer", "minimum": 0, "maximum": 9, "title": f"{module}.max_cstate"}
    return {"type": "object", "title": module, "properties": {"max_cstate": deepest}, "additionalProperties": False}


# In the order of appending: hugepages belongs to the hugepagesz before it.
PARAMETERS: dict[str, Any] = {
    "isolcpus": {
        "type": "string",
        "title": "isolcpus",
        "pattern": f"^((nohz|domain|managed_irq),)*{_LIST}{_END}",
        "description": "CPUs that the scheduler does not use by itself: a list such as 2-3, or domain,managed_irq,2-3",
    },
    "nohz_full": {**_CPUS, "title": "nohz_full", "description": "CPUs without a timer tick while one task runs: 2-3"},
    "rcu_nocbs": {**_CPUS, "title": "rcu_nocbs", "description": "CPUs whose RCU callbacks run elsewhere: 2-3"},
    "default_hugepagesz": {
        **_SIZE,
        "title": "default_hugepagesz",
        "description": "Default size of huge pages: 2M, 1G or another of this kernel",
    },
    "hugepagesz": {**_SIZE, "title": "hugepagesz", "description": "Size of the pages that hugepages reserves: 2M, 1G"},
    "hugepages": {
        "type": "integer",
        "minimum": 1,
        "title": "hugepages (pages)",
        "description": "Number of huge pages to reserve at boot, when memory is not fragmented yet",
    },
    "transparent_hugepage": {
        "type": "string",
        "enum": ["always", "madvise", "never"],
        "title": "transparent_hugepage",
    },
    "numa_balancing": {"type": "string", "enum": list(SWITCHES), "title": "numa_balancing"},
    "mitigations": {
        "type": "string",
        "enum": ["auto", "off"],
        "title": "mitigations",
        "description": "Protection against flaws of the processors. off exposes the whole host during the run",
    },
    "processor": _states("processor"),
    "intel_idle": _states("intel_idle"),
    "skew_tick": {
        "type": "integer",
        "minimum": 0,
        "maximum": 1,
        "title": "skew_tick",
        "description": "1: the timer ticks of the CPUs do not coincide",
    },
}


class KernelCommandLine(Setting):
    name = NAME
    title = "Kernel command line"
    help = "Boots the host once with these kernel parameters or another kernel, and with its own after the run"
    unit = "see each field"
    risk = "restarts the host before and after the run; all its programs stop"
    level = "root"
    schema = {
        "type": "object",
        "title": "Kernel command line",
        "properties": {
            **PARAMETERS,
            "kernel": {
                "type": "string",
                "pattern": f"^[A-Za-z0-9][A-Za-z0-9._+~-]*{_END}",
                "title": "Kernel",
                "description": "An installed kernel, by its release as in uname -r. Empty: the running one",
            },
            "boot_with": {
                "type": "string",
                "enum": [KEXEC, *LOADERS],
                "title": "Boot with",
                "description": "kexec, or an entry of this boot loader that starts once. Empty: kexec",
            },
            "boot_limit_s": {
                **_SECONDS,
                "minimum": 30,
                "default": BOOT_LIMIT_S,
                "title": "Time for a boot (s)",
                "description": "If the host takes longer, the run does not continue, and the host is restored",
            },
            "contact_limit_s": {
                **_SECONDS,
                "minimum": 60,
                "default": CONTACT_LIMIT_S,
                "title": "Time for the server to connect (s)",
                "description": "If the server does not connect within this time after the boot, the host is restored",
            },
        },
        "additionalProperties": False,
    }

    def discover(self, system: System) -> dict[str, Any]:
        present = cmdline.values(system.text(cmdline.FILE))
        return {name: present[name] for name in PARAMETERS if name in present} | {"kernel": system.text(RELEASE)}

    def begins_anew(self, part: str) -> str:
        return "" if part in ("boot_limit_s", "contact_limit_s") else "host"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        wanted = parameters_of(requested)
        if not requested:  # a level without parameters
            return Plan()
        if not wanted and "kernel" not in requested:
            raise Unplannable(NAME, requested, f"a kernel, or at least one parameter: {', '.join(PARAMETERS)}")
        _check_cpus(facts, requested)
        _check_pages(facts, requested)
        line = cmdline.changed(facts["kernel"]["cmdline"], wanted)
        boot = {"parameters": wanted, "line": line, **_way(facts["boot"], requested)}
        return Plan(boot=boot if "kernel" not in requested else _with_kernel(boot, facts, requested["kernel"]))

    def check_together(self, requested: Any, plans: dict[str, Plan]) -> None:
        controlled = {path: name for name, path in CONTROLS.items() if name in requested}
        for other, plan in plans.items():
            for write in plan.writes:
                name = controlled.get(write.key)
                if name:
                    accepted = f"either this or {other}: both set {write.key}"
                    raise Unplannable(f"{NAME}.{name}", requested[name], accepted)

    def facts_after(self, facts: Facts, requested: Any) -> Facts:
        """CPUs that become isolated stay allowed: affinity, not the scheduler, places tasks there."""
        cpus = dict(facts["cpus"])
        for name, listed in (("isolated", isolated_by(requested)), ("nohz_full", requested.get("nohz_full", ""))):
            if listed:
                cpus[name] = cpulist.render(cpulist.parse(listed))
        return {**facts, "cpus": cpus}

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        if phase not in ("before", "after"):
            return []
        return prove(scene.system, requested, parameters_of(requested), scene.notes.get(NAME))


def _way(boot: Facts, requested: Any) -> dict[str, str]:
    """How the host boots: {"way", "image", "initrd"}, with other fields for a boot loader."""
    field = f"{NAME}.boot_with"
    loader = LOADERS.get(requested.get("boot_with", KEXEC))
    if loader:
        entry = boot[loader.section]
        if entry["problem"]:
            accepted = f"a host that can boot an entry of {loader.title} once; {entry['problem']}"
            raise Unplannable(field, loader.way, accepted)
        return {"way": loader.way, **{name: entry[name] for name in loader.fields}}
    if boot["problem"]:
        # A boot loader only by the user's choice, because the agent then writes to its directory.
        reported = [each for each in LOADERS.values() if each.section in boot]  # older agents did not report all
        able = [each for each in reported if not boot[each.section]["problem"]]
        hint = f"this host can boot with {able[0].title}: set boot_with to {able[0].way}" if able else ""
        raise Unplannable(field, KEXEC, f"a host that can boot with kexec; {boot['problem']}", hint)
    return {"way": KEXEC, "image": boot["image"], "initrd": boot["initrd"]}


def _with_kernel(boot: dict[str, Any], facts: Facts, release: str) -> dict[str, Any]:
    """The same boot with an installed kernel."""
    field, kernels = f"{NAME}.kernel", {each["release"]: each for each in facts["boot"]["kernels"]}
    if release not in kernels:
        hint = "it needs an image and an initial RAM disk in /boot, or an entry of systemd-boot, and its /lib/modules"
        raise Unplannable(field, release, f"an installed kernel: {', '.join(kernels) or 'none was found'}", hint)
    loader = LOADERS.get(boot["way"])
    files = kernels[release][loader.section] if loader else kernels[release]
    if not (files["image"] and files["initrd"]):
        accepted = loader.kernels(boot) if loader else "a kernel with an image and an initial RAM disk in /boot"
        raise Unplannable(field, release, accepted)
    line = grub.with_image(boot["line"], files["image"])  # GRUB's parameter is also in a line that kexec repeats
    return {**boot, "image": files["image"], "initrd": files["initrd"], "line": line, "release": release}


def parameters_of(requested: Any) -> list[str]:
    """The parameters in the form of the command line, in the order of PARAMETERS."""
    flat = [(name, requested[name]) for name in PARAMETERS if name in requested]
    groups = [(name, value) for name, value in flat if isinstance(value, dict)]
    nested = [(f"{name}.{inner}", each) for name, group in groups for inner, each in group.items()]
    return [f"{name}={value}" for name, value in [*flat, *nested] if not isinstance(value, dict)]


def _check_cpus(facts: Facts, requested: Any) -> None:
    online = set(cpulist.parse(facts["cpus"]["online"]))
    for name in ("isolcpus", "nohz_full", "rcu_nocbs"):
        if name not in requested:
            continue
        field, value = f"{NAME}.{name}", requested[name]
        try:
            chosen = set(cpulist.parse(",".join(part for part in value.split(",") if part[:1].isdigit())))
        except ValueError as error:
            raise Unplannable(field, value, f"a list of CPUs such as 2-3 ({error})") from error
        if chosen - online:
            missing = cpulist.render(chosen - online)
            raise Unplannable(field, value, f"CPUs that are online: {facts['cpus']['online']}", f"CPU {missing} is not")
        if name != "rcu_nocbs" and not online - chosen:
            accepted = f"a list without at least one of {facts['cpus']['online']}"
            raise Unplannable(field, value, accepted, "the kernel and all other programs need a CPU")


def _check_pages(facts: Facts, requested: Any) -> None:
    sizes = [size["kb"] for size in facts["huge_pages"]["sizes"]]
    for name in ("default_hugepagesz", "hugepagesz"):
        if name in requested and kb_of(requested[name]) not in sizes:
            accepted = ", ".join(map(_shown, sizes)) or "nothing: this kernel has no huge pages"
            raise Unplannable(f"{NAME}.{name}", requested[name], accepted)
    if "hugepagesz" in requested and "hugepages" not in requested:
        raise Unplannable(f"{NAME}.hugepages", None, "a number of pages, because hugepagesz names their size")
    if "hugepages" in requested:
        size = requested.get("hugepagesz") or requested.get("default_hugepagesz", "")
        kb = kb_of(size) or facts["huge_pages"]["default_kb"]
        most = int(facts["memory"]["total_kb"] * MOST_MEMORY) // kb if kb else 0
        if requested["hugepages"] > most:
            accepted = f"at most {most} pages of {_shown(kb)}: {MOST_MEMORY:.0%} of the host's memory"
            raise Unplannable(f"{NAME}.hugepages", requested["hugepages"], accepted)


def _shown(kb: int) -> str:
    for unit, size in (("G", 1 << 20), ("M", 1 << 10)):
        if kb and kb % size == 0:
            return f"{kb // size}{unit}"
    return f"{kb}K"

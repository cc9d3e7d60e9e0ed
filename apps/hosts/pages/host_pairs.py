"""A host's facts, its connection and its supervision, as its page lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.template.defaultfilters import date, pluralize

from agents.host.loaders import LOADERS
from apps.accounts.models.walls import sees
from apps.accounts.templatetags.pages import DASH, ghz, kib
from apps.hosts.models import Host
from apps.web.pairs import BREAK, Pair, Part, code, joined, link, muted, pair

SUPERVISORS = {
    "systemd": "systemd restores a killed run at once, and a restarted host during boot",
    "": "unknown until the first check",
}
POLICY = {"forbid": "forbidden", "os_users": "accounts", "directories": "directories"}
Section = Mapping[str, Any]


def connection_pairs(host: Host, facts: Section) -> Iterator[Pair]:
    """How the server reaches the host, and what its agent may do there."""
    jump = (" through ", link(host.jump, "host_detail", host.jump.name)) if host.jump and sees(host.jump) else ()
    yield pair("Address", code(f"{host.user}@{host.address}:{host.port}"), *jump)
    yield pair("SSH key", str(host.identity))
    sudo = " (through sudo -n)" if host.sudo else ""
    yield pair("Level", f"{host.level or 'not known before the first check'}{sudo}")
    if host.launcher:
        yield pair("Started by", code("proving-agent"), ", which verifies the server's signature")
    if policy := facts.get("policy"):
        lists = [f"{title}: {', '.join(policy[name])}." for name, title in POLICY.items() if policy.get(name)]
        yield pair("Narrowed", " ".join(lists))
    yield pair("Python", code(host.python), _with(" {}", facts.get("python")))
    yield pair("Spool", code(host.spool_dir))
    yield pair("Clusters", code(host.data_dir))
    yield pair("Labels", *joined(", ", map(code, host.labels), none="none"))
    yield pair("Last contact", date(host.last_contact_at, "Y-m-d H:i:s") or "never")
    if host.agent_digest:
        yield pair("Agent", f"{host.agent_version} ", code(host.agent_digest[:12]))


def supervision_pairs(host: Host) -> Iterator[Pair]:
    """Who restores the host after a run that was killed, and whether runs may restart it."""
    yield pair("Supervisor", SUPERVISORS.get(host.supervisor, "none: the next contact restores what is left"))
    if host.units:
        unavailable = ": requires level root and systemd as PID 1" if host.units == "unavailable" else ""
        yield pair("systemd units", f"{host.units}{unavailable}")
    level = "; requires level root" if host.level == "user" else ""
    yield pair("Planned restarts", f"{'allowed' if host.may_reboot else 'not allowed'}{level}")


def fact_pairs(facts: Section) -> Iterator[Pair]:
    """The facts of a host that one line can tell. Older agents did not report all sections."""
    yield from _machine(facts, facts.get("os", {}), facts.get("firmware", {}), facts.get("kernel", {}))
    yield from _cpus(facts.get("cpus", {}))
    yield from _memory(facts.get("memory", {}), facts.get("huge_pages", {}), facts.get("transparent_huge_pages", {}))
    limits = list(_limits(facts.get("limits", {})))
    yield pair("Limits of the agent", items=limits) if limits else pair("Limits of the agent", "none by control groups")
    if cgroup := facts.get("cgroup"):
        yield pair("Control groups", control_groups(cgroup))
    tools = facts.get("tools", {}).items()
    versions = [Part(f"{name}{_with(' {}', tool.get('version'))}", "nowrap") for name, tool in tools]
    yield pair("Tools", *joined(", ", versions, none="none found"))


def _machine(facts: Section, os: Section, firmware: Section, kernel: Section) -> Iterator[Pair]:
    virtualization = facts.get("virtualization")
    inside = muted(f"in {virtualization}") if virtualization else ""
    yield pair("System", os.get("pretty", ""), inside, _with(", tuned profile {}", os.get("tuned_profile")))
    if firmware.get("product_name"):
        yield pair("Machine", f"{firmware.get('sys_vendor', '')} {firmware['product_name']}")
    if firmware:
        version, of_date = firmware.get("bios_version"), _with(" of {}", firmware.get("bios_date"))
        bios = f"{firmware.get('bios_vendor', '')} {version}{of_date}" if version else ""
        yield pair("Firmware", "; ".join(filter(None, [bios, _with("microcode {}", firmware.get("microcode"))])))
    release = f"{kernel.get('release', '')} {kernel.get('arch', '')}"
    command_line = (BREAK, code(kernel["cmdline"])) if kernel.get("cmdline") else ()
    yield pair("Kernel", release, _with(", clock {}", kernel.get("clocksource")), *command_line)
    if boot := facts.get("boot"):
        yield pair("Kernel parameters", boot_ways(boot))


def boot_ways(boot: Section) -> str:
    """How campaigns can change kernel parameters of a host, what is missing for the ways that it lacks, and which
    kernels it has."""
    problems = {"kexec": boot.get("problem")}
    for loader in LOADERS.values():
        if loader.section in boot:  # older agents did not report it
            problems[loader.title] = boot[loader.section].get("problem")
    ways = " or ".join(name for name, problem in problems.items() if not problem)
    lacking = [f"{name}: {problem}." for name, problem in problems.items() if problem]
    able = f"A campaign can change them, with {ways}." if ways else "A campaign cannot change them."
    kernels = ", ".join(each["release"] for each in boot.get("kernels", []))
    return " ".join([able, *lacking, *([f"Installed kernels: {kernels}."] if kernels else [])])


def _cpus(cpus: Section) -> Iterator[Pair]:
    online, allowed = cpus.get("online", ""), cpus.get("allowed", "")
    yield pair(
        "CPU",
        f"{cpus.get('model') or DASH}; online {online}",
        f", allowed {allowed}" if allowed != online else "",
        _with(", SMT {}", cpus.get("smt")),
        _with(", isolated {}", cpus.get("isolated")),
    )
    frequency, idle = cpus.get("frequency", {}), cpus.get("idle", {})
    if policies := frequency.get("policies"):
        boost = frequency.get("boost")
        ends = [] if boost is None else [f"boost {'on' if boost else 'off'}"]
        yield pair("Frequency", *joined(BREAK, [*map(_frequency, policies), *ends]))
    if states := idle.get("states"):
        latencies = ((_idle_state(each), f" {each.get('latency_us') or 0} µs") for each in states)
        yield pair("Idle states", *joined(", ", latencies), muted(f"({idle.get('driver', '')})"))


def _frequency(policy: Section) -> str:
    span = f"{ghz(policy.get('min_khz'))} to {ghz(policy.get('max_khz'))}"
    return f"{policy.get('governor', '')} ({policy.get('driver', '')}), {span} on cpus {policy.get('cpus', '')}"


def _idle_state(state: Section) -> Part:
    return Part(state.get("name", ""), "struck" if state.get("disabled") else "")


def _memory(memory: Section, huge_pages: Section, transparent: Section) -> Iterator[Pair]:
    available, swap = memory.get("available_kb"), memory.get("swap_kb")
    free = f", {kib(available)} available" if available else ""
    yield pair("Memory", f"{kib(memory.get('total_kb'))}{free}, {f'swap {kib(swap)}' if swap else 'no swap'}")
    yield pair("Huge pages", "; ".join(map(_pool, huge_pages.get("sizes", []))) or "none")
    defrag = _with(", defrag {}", transparent.get("defrag"))
    yield pair("Transparent huge pages", f"{transparent.get('enabled') or DASH}{defrag}")


def _pool(size: Section) -> str:
    free = f", {size.get('free', '')} free" if size.get("total") else ""
    surplus = _with(", {} surplus", size.get("surplus"))
    return f"{kib(size.get('kb'))}: {size.get('total', '')} in the pool{free}{surplus}"


def _limits(limits: Section) -> Iterator[str]:
    if quota := limits.get("cpu_quota"):
        yield f"time of {quota} cpu{pluralize(quota)}"
    if cpus := limits.get("cpuset_cpus"):
        yield f"cpus {cpus}"
    if nodes := limits.get("cpuset_mems"):
        yield f"memory of nodes {nodes}"
    if most := limits.get("memory_max_kb"):
        yield f"{kib(most)} of memory"
    if high := limits.get("memory_high_kb"):
        yield f"throttled above {kib(high)} of memory"
    if processes := limits.get("pids_max"):
        yield f"{processes:d} processes"


def control_groups(cgroup: Section) -> str:
    """The version of a host's control groups and the controllers for runs: "version 2; runs can limit cpu, memory"."""
    version = "none" if cgroup["version"] == "none" else f"version {cgroup['version']}"
    if cgroup["version"] == "hybrid":
        version = f"version 2, with controllers left in version 1 ({', '.join(cgroup['legacy'])})"
    problem = f": {cgroup['problem']}" if cgroup.get("problem") else ""
    return f"{version}; runs can limit {', '.join(cgroup['controllers']) or f'nothing{problem}'}"


def _with(text: str, value: Any) -> str:
    """The text with the value in it; "" without a value."""
    return text.format(value) if value else ""

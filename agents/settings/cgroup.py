"""Limits on PostgreSQL's memory, CPU time, CPUs and I/O, by a control group (version 2), as on a smaller machine.

All processes of the server are started in the group; the load generator stays outside. The group is created for the run
and removed after it, so nothing is left to restore: recovery/control_group.py.
"""

from __future__ import annotations

from typing import Any

from ..errors import NotApplied, Unplannable
from ..host import cgroups, cpulist
from ..host.reader import PAGE_BYTES
from ..host.system import Process
from .base import Facts, Plan, Proof, Scene, Setting
from .block_device import BLOCK, DATA, UNKNOWN, below
from .cache import data_files, files_below, left
from .cpu_affinity import online_cpus
from .numa import listed_nodes
from .postgresql import normalise

NO_LIMIT = "max"
PERIOD_US = 100_000  # the kernel's default
LEAST_CPUS = 0.01  # the kernel's minimum: 1 ms in each period
LEAST_BYTES_S, LEAST_IOPS = 65_536, 10  # below these, a checkpoint alone takes hours
SHARED_BUFFERS = "128MB"  # PostgreSQL's default
PROCESSES_BYTES = 32 << 20  # the least that PostgreSQL needs to start, besides its shared memory
MANY = 200  # processes that a proof lists
_SIZE = r"[1-9]\d{0,9}(kB|MB|GB|TB)"
_MEMORY = {"type": "string", "pattern": f"^({NO_LIMIT}|{_SIZE})$"}
_RATE = {
    "type": ["integer", "string"],
    "pattern": r"^[1-9]\d{0,9}(kB|MB|GB)?$",
    "description": "such as 50MB",
}
_NUMBER = {"type": "integer", "minimum": LEAST_IOPS, "description": f"at least {LEAST_IOPS}"}
_DEVICE = {
    "type": "object",
    "properties": {
        "rbps": {**_RATE, "title": "Bytes read per second from the device"},
        "wbps": {**_RATE, "title": "Bytes written per second to the device"},
        "riops": {**_NUMBER, "title": "Reads per second from the device"},
        "wiops": {**_NUMBER, "title": "Writes per second to the device"},
    },
    "additionalProperties": False,
}


class Cgroup(Setting):
    name = "cgroup"
    title = "Control group"
    help = "Limits memory, CPU time, CPUs and I/O of the private cluster, as on a smaller machine (cgroup v2)"
    unit = "see each field"
    risk = "none: the group is removed after the run; a limit on memory can make the kernel kill a backend"
    level = "root"
    schema = {
        "type": "object",
        "title": "Control group",
        "properties": {
            "memory_max": {
                **_MEMORY,
                "title": "Memory limit",
                "description": "memory.max, such as 8GB; page cache counts, huge pages do not; max: no limit",
            },
            "memory_high": {
                **_MEMORY,
                "title": "Memory throttle limit",
                "description": "memory.high: above it the kernel slows PostgreSQL down and takes memory back",
            },
            "cpu_max": {
                "type": ["number", "string"],
                "pattern": rf"^({NO_LIMIT}|\d{{1,6}}(\.\d{{1,2}})?)$",
                "title": "CPU time",
                "description": "cpu.max as a number of CPUs, such as 1.5; max: no limit",
            },
            "cpuset_cpus": {
                "type": "string",
                "pattern": cpulist.PATTERN,
                "title": "CPUs",
                "description": cpulist.GRAMMAR,
            },
            "cpuset_mems": {
                "type": "string",
                "pattern": r"^(all|\d+(-\d+)?(,\d+(-\d+)?)*)$",
                "title": "Memory nodes",
                "description": "NUMA nodes that memory may come from: a list (0-1) or all",
            },
            "io_max": {
                "type": "object",
                "title": "I/O limits",
                "description": "By device as in /sys/block; data is the device below the run's data directory",
                "properties": {DATA: {**_DEVICE, "title": "Device below the data directory"}},
                "propertyNames": {
                    "type": "string",
                    "pattern": r"^[A-Za-z0-9_!-]{1,64}$",
                    "description": "data, or a device's name",
                },
                "additionalProperties": _DEVICE,
            },
        },
        "additionalProperties": False,
    }

    def begins_anew(self, part: str) -> str:
        return "server"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        for name in requested:
            _check_controller(facts, name, requested[name])
        limits = [*_memory(facts, requested), *_cpu(facts, requested), *_cpuset(facts, requested)]
        return Plan(limits=limits + _io(facts, requested.get("io_max", {})))

    def check_together(self, requested: Any, plans: dict[str, Plan]) -> None:
        conf = {name: value for plan in plans.values() for name, value in plan.conf.items()}
        if conf.get("huge_pages") != "on":  # the kernel does not count huge pages for the group
            _check_shared_buffers(requested, conf.get("shared_buffers", SHARED_BUFFERS))
        for name, plan in plans.items():
            if "cpuset_cpus" in requested and "CPUAffinity" in plan.unit:
                accepted = f"either this or {name}: both choose PostgreSQL's CPUs"
                raise Unplannable("cgroup.cpuset_cpus", requested["cpuset_cpus"], accepted)
            if "cpuset_mems" in requested and name == "numa" and plan.server_prefix:
                accepted = "either this or numa: both choose PostgreSQL's memory nodes"
                raise Unplannable("cgroup.cpuset_mems", requested["cpuset_mems"], accepted)

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        _check_shared_memory(scene, requested)
        return plan.with_limits([(file, _resolved(scene, file, text)) for file, text in plan.limits])

    def act(self, scene: Scene, requested: Any, moment: str) -> list[Proof]:
        """drops the data from the page cache first"""
        # Pages that another group has read count for that group: their memory, and the I/O of writing them back.
        limits_pages = _limits_memory(requested) or requested.get("io_max")
        if moment != "stopped" or not scene.pgdata or not limits_pages:
            return []
        scene.system.sync()
        for file in (*data_files(scene.pgdata), *files_below(f"{scene.pgdata}/pg_wal")):
            scene.system.drop_from_page_cache(file)
        return [left(scene.system, scene.pgdata)]

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        if not scene.group:
            return []
        proofs = _inside(scene) if scene.server_processes() else []
        if phase == "during":
            return [*proofs, *_outside(scene)]
        proofs += [_limit(scene, file, text) for file, text in scene.limits]
        proofs += _effective(scene, requested)
        if phase == "after" and proofs:
            proofs[-1].evidence["figures"] = cgroups.figures(scene.system, scene.group)
        return proofs


def _check_controller(facts: Facts, name: str, value: Any) -> None:
    """Unplannable, with the missing controller, if the control groups of this host cannot limit this."""
    about = facts["cgroup"]
    needed = cgroups.controllers_for([name.replace("_", ".")])
    controller = next((each for each in needed if each not in about["controllers"]), "")
    if not controller:
        return
    if controller in about["legacy"]:
        hint = f"the {controller} controller is in version 1 of control groups on this host; {cgroups.BOOT_HINT}"
    else:
        hint = about["problem"] or f"control groups of version 2 have no {controller} controller on this host"
    accepted = f"nothing; this host has no {controller} controller of control groups version 2 that a run can use"
    raise Unplannable(f"cgroup.{name}", value, accepted, hint)


def _limits_memory(requested: Any) -> bool:
    return any(requested.get(name, NO_LIMIT) != NO_LIMIT for name in ("memory_max", "memory_high"))


def _memory(facts: Facts, requested: Any) -> list[tuple[str, str]]:
    limits, total = {}, facts["memory"]["total_kb"] * 1024
    for name in ("memory_high", "memory_max"):
        if requested.get(name, NO_LIMIT) != NO_LIMIT:
            limits[name] = size(requested[name])
            if limits[name] > total:
                accepted = f"at most {total >> 20}MB, the memory of this host; or {NO_LIMIT}"
                raise Unplannable(f"cgroup.{name}", requested[name], accepted)
    if limits.get("memory_high", 0) > limits.get("memory_max", total):
        accepted = f"at most memory_max, {requested['memory_max']}"
        raise Unplannable("cgroup.memory_high", requested["memory_high"], accepted)
    names = [name for name in ("memory_high", "memory_max") if name in requested]
    return [(name.replace("_", "."), str(limits.get(name, NO_LIMIT))) for name in names]


def size(text: str) -> int:
    """ "8GB" -> bytes."""
    return int(normalise(str(text), "B", "integer"))


def _cpu(facts: Facts, requested: Any) -> list[tuple[str, str]]:
    if "cpu_max" not in requested:
        return []
    value, count = requested["cpu_max"], len(cpulist.parse(facts["cpus"]["online"]))
    if value == NO_LIMIT:
        return [("cpu.max", f"{NO_LIMIT} {PERIOD_US}")]
    if not LEAST_CPUS <= float(value) <= count:
        accepted = f"{LEAST_CPUS} to {count} CPUs, as this host has {count} online; or {NO_LIMIT}"
        raise Unplannable("cgroup.cpu_max", value, accepted)
    return [("cpu.max", f"{round(float(value) * PERIOD_US)} {PERIOD_US}")]


def _cpuset(facts: Facts, requested: Any) -> list[tuple[str, str]]:
    limits = []
    if "cpuset_cpus" in requested:
        limits.append(("cpuset.cpus", online_cpus(facts, "cgroup.cpuset_cpus", requested["cpuset_cpus"])))
    if "cpuset_mems" in requested:
        nodes = listed_nodes(facts, "cgroup.cpuset_mems", requested["cpuset_mems"], having="memory")
        limits.append(("cpuset.mems", cpulist.render(nodes)))
    return limits


def _io(facts: Facts, requested: Any) -> list[tuple[str, str]]:
    known = [device["name"] for device in facts["block_devices"]]
    for name, rates in requested.items():
        if name != DATA and name not in known:
            shown = ", ".join(known) or "as this host shows no devices"
            raise Unplannable(f"cgroup.io_max.{name}", rates, f"{DATA}, {shown}")
        if not rates:
            raise Unplannable(f"cgroup.io_max.{name}", rates, "at least one of rbps, wbps, riops, wiops")
    return [("io.max", _io_line(name, rates)) for name, rates in requested.items()]


def _io_line(name: str, rates: dict[str, Any]) -> str:
    values = {key: rates[key] for key in ("rbps", "wbps", "riops", "wiops") if key in rates}
    for key in ("rbps", "wbps"):
        if key in values:
            values[key] = size(values[key])
            if values[key] < LEAST_BYTES_S:
                accepted = f"at least {LEAST_BYTES_S} bytes per second"
                raise Unplannable(f"cgroup.io_max.{name}.{key}", rates[key], accepted)
    device = f"$(cat {BLOCK}/{UNKNOWN if name == DATA else name}/dev)"
    return " ".join([device, *(f"{key}={value}" for key, value in values.items())])


def _check_shared_buffers(requested: Any, buffers: str) -> None:
    needed = int(normalise(buffers, "8kB", "integer")) + PROCESSES_BYTES
    for name in ("memory_max", "memory_high"):
        if requested.get(name, NO_LIMIT) != NO_LIMIT and size(requested[name]) < needed:
            accepted = f"at least {-(-needed >> 20)}MB: shared_buffers is {buffers}, and its processes need 32MB"
            raise Unplannable(f"cgroup.{name}", requested[name], accepted, "raise it, or lower shared_buffers")


def _check_shared_memory(scene: Scene, requested: Any) -> None:
    """The same check with all shared memory, whose size only the configured server can report."""
    if scene.major < 15 or scene.parameter is None or not _limits_memory(requested):
        return
    if scene.parameter("huge_pages") == "on":
        return
    needed = (int(scene.parameter("shared_memory_size")) << 20) + PROCESSES_BYTES
    for name in ("memory_max", "memory_high"):
        if requested.get(name, NO_LIMIT) != NO_LIMIT and size(requested[name]) < needed:
            expected = f"at least {needed >> 20}MB, as this PostgreSQL has {needed - PROCESSES_BYTES >> 20}MB of"
            hint = "raise it, or lower shared_buffers, max_connections or wal_buffers"
            raise NotApplied(f"cgroup.{name}", f"{expected} shared memory", requested[name], hint)


def _resolved(scene: Scene, file: str, text: str) -> str:
    """The text in the kernel's form: memory in whole pages, a device by its number."""
    if file.startswith("memory.") and text != NO_LIMIT:
        return str(int(text) // PAGE_BYTES * PAGE_BYTES)
    if file != "io.max":
        return text
    device, _, rates = text.partition(") ")
    path = device[len("$(cat ") :]
    if UNKNOWN in path:
        path = path.replace(UNKNOWN, below(scene.system, scene.data_dir))
    number = scene.system.text(path)
    if not number:
        raise NotApplied("cgroup.io_max", f"the number of a device in {path}", "no such file")
    return f"{number} {rates}"


def _inside(scene: Scene) -> list[Proof]:
    """Every process of PostgreSQL is in the group."""
    expected = cgroups.kernel_path(scene.system, scene.group)
    groups = _groups(scene, scene.server_processes())
    actual = sorted(set(groups.values()))
    evidence = {"source": "/proc/PID/cgroup", "of": len(groups), "processes": _rows(groups)}
    return [Proof("control group of every process", expected, " ".join(actual), actual == [expected], evidence)]


def _outside(scene: Scene) -> list[Proof]:
    """The load generator is not in the group, where it would use memory and CPU time of PostgreSQL."""
    group = cgroups.kernel_path(scene.system, scene.group)
    groups = _groups(scene, scene.client_processes())
    if not groups:
        return []
    count = sum(path == group for path in groups.values())
    evidence = {"source": "/proc/PID/cgroup", "processes": _rows(groups)}
    return [Proof("processes of the load generator in the group", 0, count, count == 0, evidence)]


def _groups(scene: Scene, processes: list[Process]) -> dict[Process, str]:
    """The group of each process that still exists."""
    groups = {process: cgroups.group_of(scene.system, process.pid) for process in processes}
    return {process: path for process, path in groups.items() if path}


def _rows(groups: dict[Process, str]) -> list[dict[str, Any]]:
    rows = [{"pid": process.pid, "name": process.name, "group": path} for process, path in groups.items()]
    return rows[:MANY]


def _limit(scene: Scene, file: str, text: str) -> Proof:
    """The kernel's file still has the value written; io.max has a line for each device, with all four limits."""
    path = f"{scene.group}/{file}"
    actual = " ".join(scene.system.text(path).split()) if file != "io.max" else _io_of(scene, path, text)
    subject = f"{file} of {text.split()[0]}" if file == "io.max" else file
    return Proof(subject, text, actual, actual == text, {"source": "the group's files", "file": path})


def _io_of(scene: Scene, path: str, text: str) -> str:
    """The line of the same device, cut to the limits that were requested."""
    number, *rates = text.split()
    names = {rate.partition("=")[0] for rate in rates}
    for line in scene.system.text(path).splitlines():
        device, *actual = line.split()
        if device == number:
            return " ".join([device, *(rate for rate in actual if rate.partition("=")[0] in names)])
    return "no limit"


def _effective(scene: Scene, requested: Any) -> list[Proof]:
    """The CPUs and nodes in effect: a group above, or a CPU that went offline, may leave fewer than written."""
    proofs = []
    for file, text in scene.limits:
        if file.startswith("cpuset."):
            path = f"{scene.group}/{file}.effective"
            actual = scene.system.text(path)
            proofs.append(Proof(f"{file}.effective", text, actual, actual == text, {"source": "the group's files"}))
    return proofs

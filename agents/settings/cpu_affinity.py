"""Which cpus the server, the load generator and the tracer may use, by taskset; children inherit it."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..host import cpulist
from ..host.system import CLOCK_TICKS, Process
from .base import Facts, Plan, Proof, Scene, Setting

_CPUS = {"type": "string", "pattern": cpulist.PATTERN, "description": cpulist.GRAMMAR}
SAME = "server"  # of the tracer: wherever PostgreSQL is
_TRACER = {
    "pattern": f"{cpulist.PATTERN}|^{SAME}$",
    "description": f"{cpulist.GRAMMAR}; or {SAME}: those of PostgreSQL",
}


class CpuAffinity(Setting):
    name = "cpu_affinity"
    title = "CPU affinity"
    help = "Pins PostgreSQL, and separately the load generator, to chosen CPUs with taskset"
    unit = "cpu list"
    risk = "none: ends with the processes"
    tools = ("taskset",)
    schema = {
        "type": "object",
        "title": "CPU affinity",
        "properties": {
            "server": {**_CPUS, "title": "PostgreSQL's cpus"},
            "client": {**_CPUS, "title": "The load generator's cpus"},
            "tracer": {**_CPUS, **_TRACER, "title": "The tracer's cpus"},
        },
        "additionalProperties": False,
    }

    def discover(self, system: Any) -> dict[str, Any]:
        allowed = cpulist.render(system.allowed_cpus())
        return {"server": allowed, "client": allowed}

    def begins_anew(self, part: str) -> str:
        return "server" if part == "server" else ""

    def plan(self, facts: Facts, requested: Any) -> Plan:
        prefixes = {side: _taskset(facts, side, requested) for side in requested}
        if prefixes and not facts["tools"].get("taskset"):
            raise Unplannable("cpu_affinity", requested, "hosts with taskset", "install util-linux")
        server, client, tracer = (prefixes.get(side, []) for side in ("server", "client", "tracer"))
        unit = {"CPUAffinity": server[-1]} if server else {}
        return Plan(server_prefix=server, client_prefix=client, tracer_prefix=tracer, unit=unit)

    def watch(self, scene: Scene, requested: Any) -> None:
        notes = scene.notes.setdefault(self.name, {})
        for side in requested:
            usage = notes.setdefault((scene.step, side), _Usage())
            usage.add(_tasks(scene, side), busy_ticks(scene.system.text("/proc/stat")))

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        if phase == "before":
            return [p for side in requested if side == "server" for p in _allowed(scene, side, requested, "postmaster")]
        if phase == "during":
            return [p for side in requested for p in _allowed(scene, side, requested, "every process and thread")]
        if phase == "after":
            notes = scene.notes.get(self.name, {})
            sides = [side for side in requested if (scene.step, side) in notes and notes[scene.step, side].tasks]
            return [_stayed(scene, side, requested, notes[scene.step, side]) for side in sides]
        return []


def _taskset(facts: Facts, side: str, requested: Any) -> list[str]:
    return ["taskset", "-c", online_cpus(facts, f"cpu_affinity.{side}", _requested_cpus(requested, side))]


def _requested_cpus(requested: Any, side: str) -> str:
    """The CPUs requested for a side; the tracer may request those of PostgreSQL."""
    if requested[side] != SAME:
        return str(requested[side])
    if SAME not in requested:
        raise Unplannable(f"cpu_affinity.{side}", SAME, "a list of CPUs, because PostgreSQL has none")
    return str(requested[SAME])


def online_cpus(facts: Facts, field: str, text: str) -> str:
    """The CPUs that a text of the grammar names. Unplannable if one is offline, or not allowed for the agent."""
    cpus = facts["cpus"]
    try:
        chosen = _chosen(facts, text)
    except ValueError as error:
        accepted = f"a list such as 0-3,5, a mask such as 0x6, node:N, socket:N or cores ({error})"
        raise Unplannable(field, text, accepted) from error
    for known, description in (("online", "online"), ("allowed", "allowed to this account")):
        missing = set(chosen) - set(cpulist.parse(cpus[known]))
        if missing or not chosen:
            accepted = f"CPUs that are {description}: {cpus[known]}"
            raise Unplannable(field, text, accepted, _reason(cpus, missing, description))
    return cpulist.render(chosen)


def _reason(cpus: dict[str, Any], missing: set[int], description: str) -> str:
    off = set(cpulist.parse(cpus.get("smt_off", ""))) & missing
    if off:
        return f"CPU {cpulist.render(off)} goes offline with smt.control off in the same run"
    return f"CPU {cpulist.render(missing) or '(none)'} is not {description}"


def _chosen(facts: Facts, text: str) -> list[int]:
    return cpulist.choose(text, facts["numa"]["nodes"], facts["cpus"]["topology"])


def _expected_cpus(scene: Scene, side: str, requested: Any) -> str:
    return cpulist.render(_chosen(scene.facts, _requested_cpus(requested, side)))


def _tasks(scene: Scene, side: str) -> list[Process]:
    """Server processes have one thread each; of the client and the tracer every thread counts."""
    if side == "server":
        return scene.server_processes()
    processes = scene.client_processes() if side == "client" else scene.tracer_processes()
    return [task for process in processes for task in _threads(scene, process)]


def _threads(scene: Scene, process: Process) -> list[Process]:
    from ..host.system import parse_stat

    threads = []
    for name in scene.system.names(f"/proc/{process.pid}/task"):
        text = scene.system.text(f"/proc/{process.pid}/task/{name}/stat")
        if text:
            threads.append(parse_stat(text))
    return threads


def _allowed(scene: Scene, side: str, requested: Any, subject: str) -> list[Proof]:
    tasks = _tasks(scene, side)
    if subject == "postmaster":
        tasks = tasks[:1]
    cpus_of = {task: _allowed_list(scene, task) for task in tasks}
    cpus_of = {task: cpus for task, cpus in cpus_of.items() if cpus}
    if not cpus_of:
        return []
    expected = _expected_cpus(scene, side, requested)
    actual = sorted(set(cpus_of.values()))
    evidence = {
        "source": "Cpus_allowed_list of /proc/PID/status",
        "processes": [{"pid": t.pid, "name": t.name, "cpus": cpus, "last_cpu": t.cpu} for t, cpus in cpus_of.items()],
    }
    return [Proof(f"{side}: {subject}", expected, " ".join(actual), actual == [expected], evidence)]


def _allowed_list(scene: Scene, task: Process) -> str:
    for line in scene.system.text(f"/proc/{task.pid}/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.split()[1]
    return ""  # it ended between two samples


def _stayed(scene: Scene, side: str, requested: Any, usage: _Usage) -> Proof:
    expected = _expected_cpus(scene, side, requested)
    inside = set(cpulist.parse(expected))
    outside = sum(ticks for cpu, ticks in usage.ticks.items() if cpu not in inside)
    total = sum(usage.ticks.values())
    evidence = {
        "source": "utime + stime and last cpu of /proc/PID/stat each second; /proc/stat",
        "cpu_s": {str(cpu): round(ticks / CLOCK_TICKS, 2) for cpu, ticks in sorted(usage.ticks.items())},
        "host_busy_s": {cpu: round(ticks / CLOCK_TICKS, 2) for cpu, ticks in usage.busy().items()},
    }
    share = round(outside / total, 4) if total else 0.0
    return Proof(f"{side}: share of cpu time outside {expected}", 0.0, share, outside == 0, evidence)


def busy_ticks(stat: str) -> dict[str, int]:
    """Ticks not idle of each cpu since boot, from /proc/stat: {"0": 1234, ...}."""
    rows = (line.split() for line in stat.splitlines() if line.startswith("cpu") and not line.startswith("cpu "))
    return {row[0][3:]: sum(map(int, row[1:4] + row[6:9])) for row in rows}


class _Usage:
    """Cpu time by the core a task was last seen on."""

    def __init__(self) -> None:
        self.ticks: dict[int, int] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._busy: list[dict[str, int]] = []

    @property
    def tasks(self) -> int:
        """How many were seen: not every step starts a tracer."""
        return len(self._last)

    def busy(self) -> dict[str, int]:
        """Ticks that each cpu of the host was busy, for whomever, between the first sample and the last."""
        first, last = self._busy[0], self._busy[-1]
        return {cpu: ticks - first.get(cpu, ticks) for cpu, ticks in last.items()}

    def add(self, tasks: list[Process], busy: dict[str, int]) -> None:
        first = not self._last
        self._busy = [*self._busy[:1], busy]
        for task in tasks:
            known = (task.pid, task.start)
            # CPU time before the first sample belongs to an earlier step, except for tasks started since.
            before = self._last.get(known, task.ticks if first else 0)
            self.ticks[task.cpu] = self.ticks.get(task.cpu, 0) + task.ticks - before
            self._last[known] = task.ticks

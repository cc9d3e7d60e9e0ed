"""Traces PostgreSQL processes during the load with strace, perf, bpftrace or stap, on separate CPUs.

It is a process of the run like any other: in the journal before it executes, and always ended first. The kernel
detaches a dead tracer; processes that it left stopped are continued here.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Sequence

from ..errors import Unplannable, WorkloadFailure
from ..records.processes import Account, Child, end, environment, spawn

if TYPE_CHECKING:
    from ..run.running import Run

Record = dict[str, Any]

OUTPUT, STDERR = "tracer.txt", "tracer.stderr"
FIND_S, ATTACH_S, STOP_S, POLL_S = 10.0, 180.0, 30.0, 0.1  # stap compiles a module before it attaches
APPLICATION = r"^[A-Za-z0-9_ .:/-]{1,63}$"
# A name, or one of a PMU such as cpu/event=0x3c/. Never a path: older versions of perf load programs from files.
EVENT = r"^([A-Za-z0-9_:.=-]{1,100}|[A-Za-z0-9_-]{1,40}/[A-Za-z0-9_:=-]{1,80}/[A-Za-z]{0,8})$"
_SCRIPTED = ("bpftrace", "stap")
_HELD = re.compile(r"anon_inode:(\[perf_event\]|bpf_link)")

SCHEMA: Record = {
    "type": "object",
    "title": "Tracer",
    "properties": {
        "tool": {
            "type": "string",
            "enum": ["none", "strace", "perf", "bpftrace", "stap"],
            "title": "Tracer",
            "description": "Attached when the load has connected, ended with the load",
            "default": "none",
        },
        "backends": {
            "type": "string",
            "enum": ["load", "server"],
            "title": "Traced processes",
            "description": "load: the backends of the load's connections; server: every PostgreSQL process",
            "default": "load",
        },
        "application": {
            "type": "string",
            "pattern": APPLICATION,
            "title": "Traced application_name",
            "description": "Instead of the load's backends, those with this application name",
        },
        "syscalls": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[a-z0-9_]{1,40}$"},
            "title": "Traced system calls",
            "description": "Such as pread64; default: all. Not for stap",
        },
        "events": {
            "type": "array",
            "items": {"type": "string", "pattern": EVENT},
            "title": "Counted events of perf stat",
            "description": "Instead of system calls, such as cycles or sched:sched_switch",
        },
        "script": {
            "type": "string",
            "maxLength": 100000,
            "title": "Script of bpftrace or stap",
            "description": "$1, $2 ... are the traced pids. @events and @ns of bpftrace are its figures. It runs as "
            "root on hosts at level root. Saving a script requires the permission to run commands",
        },
    },
    "additionalProperties": False,
}


def requested(options: Record) -> Record:
    """Pure. The tracer in a step's options; {} for none."""
    tracer: Record = options.get("tracer") or {}
    return tracer if tracer.get("tool", "none") != "none" else {}


def check(kind: str, options: Record) -> None:
    """Pure. Unplannable for a tracer that would have nothing to do, or two things."""
    tracer = requested(options)
    tool = tracer.get("tool", "")
    allowed = {"strace": ("syscalls",), "perf": ("syscalls", "events"), "bpftrace": ("syscalls", "script")}
    traced = [name for name in ("syscalls", "events", "script") if tracer.get(name)]
    for name in traced:
        if name not in allowed.get(tool, ("script",)):
            accepted = f"{', '.join(allowed.get(tool, ('script',)))} for {tool}"
            raise Unplannable(f"{kind}.tracer.{name}", tracer[name], accepted)
    if len(traced) > 1:
        raise Unplannable(f"{kind}.tracer.{traced[1]}", tracer[traced[1]], f"either {traced[0]} or {traced[1]}")
    if tool in _SCRIPTED and not traced:
        accepted = "a script" if tool == "stap" else "a script, or system calls"
        raise Unplannable(f"{kind}.tracer.script", tracer.get("script"), accepted)


def argv(options: Record, program: str, pids: Sequence[int], out: str, script: str) -> list[str]:
    """Pure. The argument list; `script` is the path of the script of those that have one."""
    tool, listed = options["tool"], ",".join(map(str, pids))
    calls = ",".join(options.get("syscalls", []))
    if tool == "strace":
        children = ["-f"] if options.get("backends") == "server" else []
        return [program, "-c", "-w", *children, *(["-e", f"trace={calls}"] if calls else []), "-o", out, "-p", listed]
    if tool == "perf" and options.get("events"):
        return [program, "stat", "-x", ",", "-e", ",".join(options["events"]), "-o", out, "-p", listed]
    if tool == "perf":
        # 4 MiB for each cpu: with the default, a busy cpu fills it before perf has read it.
        buffer = ["-m", "1024"]
        return [program, "trace", "-s", *buffer, *(["-e", calls] if calls else []), "-o", out, "-p", listed]
    each = list(map(str, pids))
    return [program, *(["-v", "-x", each[0]] if tool == "stap" else []), "-o", out, script, *each]


def script_of(options: Record, pids: Sequence[int]) -> str:
    """Pure. The script that was given, or one that counts and times system calls."""
    if options.get("script"):
        return str(options["script"])
    ours = " || ".join(f"pid == {pid}" for pid in pids)
    point = "tracepoint:syscalls:sys"
    probes = [
        f"{point}_enter_{call} /{ours}/ {{ @began[tid] = nsecs; }}\n"
        f'{point}_exit_{call} /@began[tid]/ {{ @events["{call}"] = count(); '
        f'@ns["{call}"] = sum(nsecs - @began[tid]); delete(@began[tid]); }}\n'
        for call in options["syscalls"]
    ]
    # Maps without an entry are not printed: the first line stands for no event at all.
    return "".join([*probes, 'END { printf("@events: 0\\n"); clear(@began); }\n'])


@dataclass
class Tracer:
    """One tracer of one step: `start` when the load has begun to connect, `stop` when it has ended."""

    run: Run
    out: Path
    options: Record
    application: str
    connections: int
    _child: Optional[Child] = None
    _traced: list[int] = field(default_factory=list)

    def start(self) -> None:
        """Find the processes, attach, and come back when it is attached. WorkloadFailure when it cannot be."""
        run, tool = self.run, self.options["tool"]
        self._traced = self._find()
        program = run.system.tool(tool)
        run.system.check_program(program)
        script = self.out / f"tracer.{'stp' if tool == 'stap' else 'bt'}"
        if tool in _SCRIPTED:
            script.write_text(script_of(self.options, self._traced))
        line = [*run.tracer_prefix, *argv(self.options, program, self._traced, str(self.out / OUTPUT), str(script))]
        run.emit("command", {"purpose": "tracer", "argv": line, "env": {}})
        with (self.out / STDERR).open("wb") as log:
            account = Account(name=str(run.system.euid()))  # the agent's account: that of PostgreSQL may not trace
            env = environment(run.job.run)
            self._child = spawn(run.journal, line, purpose="tracer", account=account, env=env, stdout=log, stderr=log)
        run.scene.tracer = self._child.pid
        self._wait_attached(self._child)
        run.log("info", f"{tool} is attached to {len(self._traced)} processes")

    def _find(self) -> list[int]:
        """Whoever the load talks to is there by then; of a server, that is to say all of it."""
        pids = self._connected()
        if self.options.get("backends") != "server":
            return pids
        return [process.pid for process in self.run.scene.server_processes()]

    def _connected(self) -> list[int]:
        deadline, pids = self.run.system.mono() + FIND_S, list[int]()
        while self.run.system.mono() < deadline and len(pids) < self.connections:
            self.run.check()
            pids = self._backends()
            if len(pids) < self.connections:
                self.run.system.sleep(POLL_S)
        if not pids:
            name = self._named
            raise WorkloadFailure(f"no connection has the name {name!r}, so there is nothing to trace")
        return pids

    @property
    def _named(self) -> str:
        return str(self.options.get("application") or self.application)

    def _backends(self) -> list[int]:
        cluster = self.run.cluster
        assert cluster is not None  # noqa: S101 - for the type checker
        # The name cannot hold a quote: APPLICATION.
        where = f"application_name = '{self._named}'"
        query = f"select coalesce(json_agg(pid order by pid), '[]') from pg_stat_activity where {where}"  # noqa: S608
        # The owner of the server can answer anything, and root is about to attach to these.
        server = {process.pid for process in self.run.scene.server_processes()}
        return [pid for pid in cluster.sql(query) if type(pid) is int and pid in server]

    def _wait_attached(self, child: Child) -> None:
        run, before = self.run, -1
        deadline = run.system.mono() + ATTACH_S
        while True:
            code = child.wait(POLL_S)
            run.check()
            held = self._held(child.pid)
            if held > 0 and held == before:
                return
            before = held
            if code is not None or run.system.mono() > deadline:
                raise self._failure("could not be attached", code)

    def _held(self, pid: int) -> int:
        """How many processes or events it holds by now; it is ready when there are some, and no more come."""
        system, tool = self.run.system, self.options["tool"]
        if tool == "stap":
            return int("Pass 5: starting run" in system.text(str(self.out / STDERR)))
        if tool == "strace":
            held = [p for p in self._traced if system.field(f"/proc/{p}/status", "TracerPid").strip() == str(pid)]
            alive = [p for p in self._traced if system.process(p)]
            return len(held) if len(held) == len(alive) else 0
        fds = system.names(f"/proc/{pid}/fd")
        return sum(bool(_HELD.match(system.link(f"/proc/{pid}/fd/{fd}"))) for fd in fds)

    def stop(self) -> None:
        """Send SIGINT, so that each tracer writes its counts. WorkloadFailure if one does not."""
        child, run = self._child, self.run
        if child is None:
            return
        early = child.wait(0.0)
        if early:
            raise self._failure("ended before the load", early)
        if early is None:
            run.system.kill_group(child.pid, signal.SIGINT)
        code = child.wait(STOP_S)
        if code is None and not end(run.system, child.entry):
            raise self._failure("is still running", code)
        run.journal.ended(child.entry)
        run.scene.tracer = None
        self._let_go()
        if not run.system.exists(str(self.out / OUTPUT)):
            raise self._failure("reported no events", code)

    def _let_go(self) -> None:
        for pid in self._traced:
            process = self.run.system.process(pid)
            if process and process.state in "Tt":
                self.run.system.kill(pid, signal.SIGCONT)
                self.run.log("warning", f"{self.options['tool']} left process {pid} stopped; it was continued")

    def _failure(self, what: str, code: Optional[int]) -> WorkloadFailure:
        output = self.run.system.text(str(self.out / STDERR))[-2000:]
        tool = self.options["tool"]
        return WorkloadFailure(f"{tool} {what}", "`stderr` has its output", code=code, stderr=output)

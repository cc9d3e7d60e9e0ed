"""Base class of settings: discover, plan (pure), resolve, verify. The journal applies and restores all of them."""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Optional

from ..host.loaders import LOADERS
from ..host.system import Process, System

Facts = dict[str, Any]
Schema = dict[str, Any]
_CHOSEN = re.compile(r"\[([^\]]+)\]")


def current(system: System, key: str) -> str:
    """The value of a kernel file with single spaces; of listed choices, the [chosen] one. OSError if unreadable."""
    text = " ".join(system.read(key).split())
    if key.startswith("/sys/") and key.endswith("/nr_hugepages"):
        # Surplus pages are freed with their user; /proc/sys/vm/nr_hugepages does not count them.
        return str(int(text) - int(system.text(key.replace("/nr_hugepages", "/surplus_hugepages"), "0")))
    chosen = _CHOSEN.search(text)
    return chosen.group(1) if chosen else text


@dataclass(frozen=True)
class Write:
    """One value to write into a file of the kernel. The kernel may need `settle_s` seconds until it reads back.

    `also`: files that the kernel changes along with this one, and their new values (at most a counter):
    vm.dirty_bytes clears vm.dirty_ratio. They are in the journal with it, and are only written to restore them.
    `resets`: files that the kernel sets to its own default whenever this one is written: nr_requests with another
    scheduler. They are restored after it, because restoring it resets them again. `nudge`: a file into which 1 is
    written if the value does not appear, before it is written again.
    """

    key: str
    wanted: str
    settle_s: float = 0.0
    also: dict[str, str] = field(default_factory=dict)
    resets: tuple[str, ...] = ()
    nudge: str = ""

    def line(self) -> str:
        if self.key.startswith("/proc/sys/"):
            return f"sysctl -w {self.key[len('/proc/sys/') :].replace('/', '.')}={self._value()}"
        # $DATA is the device below the data directory, which the dry run does not know.
        key = f'"{self.key}"' if "$" in self.key else shlex.quote(self.key)
        return f"echo {self._value()} > {key}"

    def _value(self) -> str:
        """A value that only the configured server can report is shown as the command that reads it."""
        return self.wanted if self.wanted.startswith("$(") else shlex.quote(self.wanted)


@dataclass(frozen=True)
class Hold:
    """A device that keeps a value while a process has it open. On closing, the kernel restores it. `shown` is the
    meaning of the data."""

    path: str
    data: bytes
    shown: str

    def line(self) -> str:
        octal = "".join(f"\\{byte:03o}" for byte in self.data)  # the one escape that every sh has
        return f"exec 3> {self.path}; printf '{octal}' >&3  # {self.shown}, in effect while it stays open"


@dataclass(frozen=True)
class Plan:
    """The changes of one setting on the host: writes, held devices, prefixes of the command lines, lines of
    configuration, options of initdb. `unit` is server_prefix in the form of systemd ({"CPUAffinity": "0-3"}).
    `acts` and `sql` show what `act` does: commands, and statements for the running server. `limits` are (file, text) of
    the run's control group, in which PostgreSQL starts. `boot` is {"parameters": [text], "line": all of the command
    line, "way": that of boot_with, "image", "initrd"} of the kernel that the host boots before anything else, with the
    other fields of a boot loader, see host/loaders, and "release" of another kernel; {} for none."""

    writes: list[Write] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)
    limits: list[tuple[str, str]] = field(default_factory=list)
    server_prefix: list[str] = field(default_factory=list)
    client_prefix: list[str] = field(default_factory=list)
    tracer_prefix: list[str] = field(default_factory=list)
    unit: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    initdb: dict[str, str] = field(default_factory=dict)
    boot: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The same as a DBA would type it; for reading, never run."""
        lines = _boot_lines(self.boot) if self.boot else []
        lines += [write.line() for write in self.writes]
        lines += [hold.line() for hold in self.holds]
        lines += self.acts
        lines += (
            [shlex.join(["initdb", *(f"{n}={v}" if v else n for n, v in self.initdb.items())])] if self.initdb else []
        )
        lines += [f"echo {_quoted(conf_line(n, v))} >> $PGDATA/postgresql.conf" for n, v in self.conf.items()]
        if self.limits:
            lines.append("mkdir $CGROUP")
        lines += [f'echo "{text}" > $CGROUP/{file}' for file, text in self.limits]  # $(...) reads a device's number
        if self.limits:
            lines.append("echo $$ > $CGROUP/cgroup.procs  # in the shell that starts PostgreSQL")
        if self.server_prefix:
            lines.append(f"{shlex.join(self.server_prefix)} postgres -D $PGDATA")
        if self.client_prefix:
            lines.append(f"{shlex.join(self.client_prefix)} pgbench ...")
        lines += [f"psql -c {_quoted(statement)}" for statement in self.sql]
        if self.tracer_prefix:
            lines.append(f"{shlex.join(self.tracer_prefix)} perf ...")
        return lines

    def with_writes(self, writes: list[Write]) -> Plan:
        return replace(self, writes=writes)

    def with_limits(self, limits: list[tuple[str, str]]) -> Plan:
        return replace(self, limits=limits)


def _boot_lines(boot: dict[str, Any]) -> list[str]:
    if boot["way"] == "kexec":
        return [shlex.join(argv) for argv in kexec(boot)]
    loader = LOADERS[boot["way"]]
    text, setting = loader.entry(boot, "RUN"), shlex.join(loader.setting(boot))
    return [f"cat > {loader.file(boot)} << 'END'", *text.splitlines(), "END", setting, "systemctl reboot"]


def kexec(boot: dict[str, Any]) -> list[list[str]]:
    """The commands that boot a kernel: the first loads it, the second shuts the host down in order and starts it."""
    options = [f"--initrd={boot['initrd']}", f"--command-line={boot['line']}"]
    return [["kexec", "-a", "-l", boot["image"], *options], ["systemctl", "kexec"]]


def _quoted(text: str) -> str:
    """Double quotes where they suffice: a line of postgresql.conf is full of single ones."""
    return shlex.quote(text) if any(char in text for char in '$`"\\!') else f'"{text}"'


def conf_line(name: str, value: str) -> str:
    """A line of postgresql.conf; quotes and backslashes are doubled as its grammar wants."""
    return f"{name} = '" + value.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(frozen=True)
class Proof:
    """A value read on the host: `subject` should be `wanted` and is `found`."""

    subject: str
    wanted: Any
    found: Any
    ok: bool
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass
class Scene:
    """What a setting reads for its proofs: the processes of the run, the server's SQL, and its own earlier notes.
    `data_dir` is the run's directory, `pgdata` that of its cluster; "" without a target."""

    system: System
    facts: Facts
    postmaster: Optional[int] = None
    client: Optional[int] = None
    tracer: Optional[int] = None
    step: str = ""
    last: bool = False  # no step follows
    measured: bool = False  # the step yields results
    major: int = 0
    data_dir: str = ""
    pgdata: str = ""
    conf_file: str = ""
    group: str = ""  # directory of the run's control group, in which the server starts; "" for none
    limits: list[tuple[str, str]] = field(default_factory=list)  # (file, text) that were written there
    parameter: Optional[Callable[[str], str]] = None  # its value, from postgres -C
    sql: Optional[Callable[[str], Any]] = None
    parameter_proofs: Optional[Callable[[dict[str, str]], Optional[list[Proof]]]] = None  # if they are set by SQL
    huge_pages_needed: Optional[Callable[[int], int]] = None  # pages for a size in kB
    writes: dict[str, list[Write]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None  # raises when the run is to stop
    report: Callable[[float, float, str], None] = lambda share, seconds_left, note: None  # the progress of long work

    def server_processes(self) -> list[Process]:
        """Postmaster, background processes and backends."""
        return list(self._family(self.postmaster)) if self.postmaster else []

    def client_processes(self) -> list[Process]:
        """Return the load generator and its descendants."""
        return list(self._family(self.client)) if self.client else []

    def tracer_processes(self) -> list[Process]:
        """Return the tracer and its descendants."""
        return list(self._family(self.tracer)) if self.tracer else []

    def _family(self, pid: int) -> Iterator[Process]:
        process = self.system.process(pid)
        if process and process.alive:
            yield process
            for child in self.system.children(pid):
                yield from self._family(child)


class Setting(ABC):
    """Base of all settings; see the registry in settings/__init__.py."""

    name: str
    title: str
    help: str
    schema: Schema
    unit = ""
    risk = "none"
    level = "user"
    tools: tuple[str, ...] = ()

    def discover(self, system: System) -> dict[str, Any]:
        """The present value on this host, in the words of `schema` where it has any."""
        return {}

    @abstractmethod
    def plan(self, facts: Facts, requested: Any) -> Plan:
        """Pure. Unplannable, with field, value and what is accepted, if this host cannot have it."""

    def check_together(self, requested: Any, plans: dict[str, Plan]) -> None:
        """Pure. Unplannable if this request conflicts with other plans of the same run."""

    def facts_after(self, facts: Facts, requested: Any) -> Facts:
        """Pure. The facts that later settings of the run are planned with."""
        return facts

    def resolve(self, scene: Scene, plan: Plan, requested: Any) -> Plan:
        """Fill in values that only the configured server can report. NotApplied if the host cannot provide them."""
        return plan

    def begins_anew(self, part: str) -> str:
        """Pure. What another value of this part needs: "host" (a boot), "cluster" (a new one), "server" (a restart), or
        "" if it takes effect without one."""
        return ""

    def watch(self, scene: Scene, requested: Any) -> None:
        """Sample the run once a second, cheaply; `scene.notes[self.name]` keeps what `verify` needs."""

    def act(self, scene: Scene, requested: Any, moment: str) -> list[Proof]:
        """Act without a change to restore, and prove it: `stopped` (all is applied, PostgreSQL is down), `warm` (the
        data is there, a step's warm-up comes next) or `measure` (its load comes next)."""
        return []

    def verify(self, scene: Scene, requested: Any, phase: str) -> list[Proof]:
        """Proofs for a phase: before (server up, no load), during (a step runs), after (the step ended). Unless a
        setting overrides this, its writes are read back before and after: other users may change them in between."""
        return read_back(scene, scene.writes.get(self.name, [])) if phase in ("before", "after") else []


def read_back(scene: Scene, writes: list[Write]) -> list[Proof]:
    """A proof for each write: the kernel's file still has the requested value."""
    actual = {write.key: current(scene.system, write.key) for write in writes}
    return [Proof(w.key, w.wanted, actual[w.key], actual[w.key] == w.wanted, {"source": w.key}) for w in writes]

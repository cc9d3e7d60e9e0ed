"""A machine that boots: a command line, a kernel that kexec has loaded, and a boot loader with its own command line
and kernel. Another kernel is installed.

Its state is in files, so that processes that die and start again share it. A boot resets `knob`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents.host import cmdline
from agents.host.system import Finished
from agents.records.spool import Job, Spool, read_log
from agents.recovery import units
from agents.rpc import Agent
from agents.run.session import Session
from agents.settings.kernel_command_line import NAME
from agents.wire import protocol
from tests.agents.dying import RUN, Death, Machine, around_all

DEFAULT = "root=/dev/vda ro quiet"
WANTED = f"{DEFAULT} skew_tick=1 panic=10 proving_ground.run={RUN}"
OWN, OTHER = os.uname().release, "6.99-other"
VERSION = "#1 SMP Debian 6.1"
IMAGE = "/boot/vmlinuz-"
MOST_KILLS = 59
STEP = 3
SETTINGS = {NAME: {"skew_tick": 1, "contact_limit_s": 60}}


class Bootable(Machine):
    """Files of the kernel and of systemd from `root`; the rest is the real machine."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / "boot")
        self.root, self.refuses, self.default = root, "", OWN

    def put(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def get(self, name: str) -> str:
        return (self.root / name).read_text()

    def read(self, path: str) -> str:
        release = self.get("release")
        texts = {
            cmdline.FILE: self.get("line") + "\n",
            "/proc/sys/kernel/version": VERSION if release == OWN else f"{VERSION} of {release}",
            "/proc/sys/kernel/osrelease": release,
            "/sys/kernel/kexec_loaded": str(int(self.get("loaded") != "")),
            "/proc/sys/kernel/kexec_load_disabled": "0",
            str(units.DIRECTORY / units.RUN): f"ExecStart=agent run --spool {self.root / 'spool'} --run %i",
            "/etc/default/kexec": "LOAD_KEXEC=false",
        }
        if path == "/run/systemd/container":
            raise FileNotFoundError(2, "No such file or directory", path)
        return texts[path] if path in texts else super().read(path)

    def exists(self, path: str) -> bool:
        return path.startswith(("/boot/", "/sys/kernel/kexec_loaded", "/run/systemd/system")) or super().exists(path)

    def names(self, path: str) -> list[str]:
        return [OTHER, OWN] if path == "/lib/modules" else super().names(path)

    def which(self, tool: str) -> str:
        return "/usr/sbin/kexec" if tool == "kexec" else super().which(tool)

    def run(self, argv: Sequence[str], **options: Any) -> Finished:
        if argv[0] not in ("kexec", "systemctl"):
            return super().run(argv, **options)
        command = " ".join(argv[:2])
        if command == self.refuses:
            return Finished(list(argv), 1, "", f"{command}: not permitted")
        if argv[0] == "kexec":
            self.put("loaded", argv[-1].removeprefix("--command-line=") if "-l" in argv else "")
            self.put("image", argv[3] if "-l" in argv else "")
        if command == "systemctl kexec":
            os.kill(os.getpid(), signal.SIGTERM)
        shown = "MainPID=0\nJob=\n" if "show" in argv else ""
        return Finished(list(argv), 0, shown, "")

    def next_line(self) -> str:
        """The command line of the next boot: that of the loaded kernel, else that of the boot loader's default."""
        return self.get("loaded") or DEFAULT

    def next_release(self, line: str) -> str:
        """The kernel that boots with this command line."""
        return self.get("image").removeprefix(IMAGE) if line == self.get("loaded") else self.default

    def reboot(self) -> None:
        self.put("loaded", "")
        self.put("restarting", "yes")


class OneRun:
    """A spool with one run. Its agent executes the run in a separate process, up to its end or a restart."""

    def __init__(self, root: Path, machine: Machine, settings: dict[str, Any], steps: Sequence[dict[str, Any]]) -> None:
        self.spool = Spool(root / "spool", machine)
        self.spool.prepare()
        self.agent = Agent(self.spool, "test", self.live)
        self.spec = {
            "version": 1,
            "target": None,
            "settings": settings,
            "steps": list(steps),
            "collect": {"interval_s": 1, "sources": []},
        }

    def submit(self) -> None:
        self.agent.submit(RUN, 1, protocol.digest(self.spec), self.spec)

    @property
    def job(self) -> Job:
        return self.spool.need(RUN)

    def live(self, spool: Spool, job: Job, lock: int, agent: str) -> None:
        pid = os.fork()
        if not pid:
            try:
                Session(spool, job, agent).execute()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind, each with its boot."""
        events, damaged = read_log(self.job.path / "events.ndjson")
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and not damaged
        return [event for event in events if event["kind"] == kind]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.records(kind)]

    def states(self) -> list[str]:
        return [event["state"] for event in self.events("state")]


class Host(OneRun):
    """The machine, its spool, and one run."""

    default = DEFAULT

    def __init__(self, root: Path, settings: dict[str, Any] | None = None, machine: Bootable | None = None) -> None:
        self.root, self.machine = root, machine or Bootable(root)
        for name, text in {
            "boot": "boot-1",
            "line": self.default,
            "release": OWN,
            "image": "",
            "loaded": "",
            "knob": "off",
            "restarting": "",
        }.items():
            self.machine.put(name, text)
        knobs = {"knobs": {str(root / "knob"): "on"}}
        super().__init__(root, self.machine, {**SETTINGS, **knobs, **(settings or {})}, [])

    def start_again(self, line: str | None = None) -> None:
        """The next boot, with `line` or next_line()."""
        machine = self.machine
        machine.put("boot", f"boot-{int(machine.get('boot')[5:]) + 1}")
        line = line or machine.next_line()
        machine.put("line", line)
        machine.put("release", machine.next_release(line))
        for name, text in {"loaded": "", "knob": "off", "restarting": ""}.items():
            machine.put(name, text)

    def guard(self) -> None:
        """Start the guard of systemd. It does not count as a contact of the server."""
        self.agent.restore()

    @property
    def manifest(self) -> dict[str, Any]:
        return self.job.manifest or {}

    def is_as_before(self) -> bool:
        present = [self.machine.get(name) for name in ("line", "release", "loaded", "knob")]
        return present == [self.default, OWN, "", "off"]


def killed_in(host: Host, boot: int, death: Death) -> bool:
    """Whether the run, or its recovery in the last boot, was killed at its boundary in that boot."""
    killed = []

    def live(*job: object) -> None:
        def run() -> None:
            around_all(death)
            with suppress(SystemExit):
                Session(host.spool, host.job, "test").execute()

        killed.append(death.of(run))

    for number in (1, 2, 3):
        if number == boot and boot < 3:
            host.agent._launch = live
        if number == 3 and boot == 3:

            def recover() -> None:
                around_all(death)
                host.agent.hello()

            return death.of(recover)
        if number == 1:
            host.submit()
        else:
            host.agent.hello()
        host.agent._launch = host.live
        if number == boot:
            return killed[0]
        host.start_again()
    return False


def boundaries(first: int) -> list[Any]:
    """Parameters of a test that kills a run at boundaries: at every one, which is slow, or at every third.

    Ways to boot differ in few boundaries, so each begins with another one: together they strike them all."""
    some = pytest.param(range(first, MOST_KILLS + 1, STEP), id="some")
    return [some, pytest.param(range(1, MOST_KILLS + 1), id="all", marks=pytest.mark.slow)]


def last_kill(root: Path, boot: int, create: Callable[[Path], Host], moments: range) -> int:
    """Kill a run at these boundaries in a boot, each time on a new host, which the agent then restores. Returns the
    last boundary that the run reached."""
    for at in moments:
        place = root / f"{boot}-{at}"
        place.mkdir()
        host, death = create(place), Death(at, sparse=True)
        if not killed_in(host, boot, death):
            return at - moments.step
        for _ in range(4):
            host.agent.hello()
            if host.job.sealed:
                break
            host.start_again()
        assert host.is_as_before() and host.manifest["clean"], death.trail[-1]
        assert host.manifest["outcome"] in ("ok", "interrupted", "failed", "not_in_effect"), death.trail[-1]
    return MOST_KILLS

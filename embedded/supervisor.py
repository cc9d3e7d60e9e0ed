"""Start services, wait until they are ready, and end exactly what was started.

A benchmark host must have no leftover processes, so there are three mechanisms: an orderly stop in reverse order; a
parent-death signal if the supervisor is killed; and a list of started processes, which the next start ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, NoReturn, Self

from embedded import paths, processes
from embedded.errors import StackError

POLL_S = 0.05
TAIL_LINES = 20
STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal requested a stop. Not an Exception, so that no handler takes it for a failure."""


@dataclass(frozen=True)
class Service:
    """One long-lived child, in the directory `cwd`. `ready` is polled until it returns True; times in seconds."""

    name: str
    argv: Sequence[str]
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 10
    ready_s: float = 60
    restart: bool = False
    cwd: Path = paths.CHECKOUT


class Supervisor:
    """A context manager that ends all services on exit, however the block ends.

    It also ends all other descendants of this process that were started in the block. Logs are in
    `state`/log/NAME.log. SIGINT, SIGTERM and SIGHUP raise Stopped in the main thread."""

    def __init__(self, state: Path) -> None:
        self.state = paths.private_dir(state.resolve())
        self._services: dict[str, Service] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._lock: IO[str] | None = None
        self._handlers: dict[signal.Signals, object] = {}
        self._others: list[int] = []
        self._adopted_before = False

    def __enter__(self) -> Self:
        self._lock = paths.lock(self.state)
        sweep(self._ledger)
        self._others = processes.children(os.getpid())  # not to be ended, nor their children
        self._adopted_before = processes.adopt_orphans()
        (self.state / "log").mkdir(exist_ok=True)
        for sig in STOPPERS:
            self._handlers[sig] = signal.signal(sig, _raise_stopped)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sig in STOPPERS:  # the stop below has a time limit; a second Ctrl-C must not interrupt it
            signal.signal(sig, signal.SIG_IGN)
        try:
            self.stop()
        finally:
            processes.adopt_orphans(self._adopted_before)
            for sig, handler in self._handlers.items():
                signal.signal(sig, handler)  # type: ignore[arg-type]
            if self._lock is not None:
                self._lock.close()

    @property
    def _ledger(self) -> Path:
        return self.state / "children.json"

    def log(self, name: str) -> Path:
        """Return the log file of a service."""
        return self.state / "log" / f"{name}.log"

    def pid(self, name: str) -> int:
        """Return the PID of a running service, which is also its process group and session."""
        return self._children[name].pid

    def start(self, *services: Service) -> None:
        """Start services together and wait until all are ready. StackError with the end of the log if one is not."""
        for service in services:
            self._services[service.name] = service
            if self.log(service.name).exists():
                self.log(service.name).replace(self.log(f"{service.name}.last"))
            self._spawn(service)
        for service in services:
            self._await_ready(service)

    def _spawn(self, service: Service) -> None:
        with self.log(service.name).open("ab") as log:
            self._children[service.name] = subprocess.Popen(
                list(service.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=service.cwd,
                env={**os.environ, **service.env},
                start_new_session=True,
                preexec_fn=processes.dies_with_parent(service.stop_signal),
            )
        self._record()

    def _record(self) -> None:
        started = {name: processes.read(child.pid) for name, child in self._children.items()}
        rows = [{"name": name, "pid": p.pid, "start": p.start} for name, p in started.items() if p is not None]
        paths.write_private(self._ledger, json.dumps({"boot_id": processes.boot_id(), "children": rows}))

    def _await_ready(self, service: Service) -> None:
        child, deadline = self._children[service.name], time.monotonic() + service.ready_s
        while not service.ready():
            if child.poll() is not None:
                raise StackError(f"{service.name} ended with status {child.returncode}{self._tail(service.name)}")
            if time.monotonic() > deadline:
                raise StackError(f"{service.name} was not ready after {service.ready_s:g} s{self._tail(service.name)}")
            time.sleep(POLL_S)

    def _tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "".join([f"; the end of {self.log(name)}:\n", *(f"    {line}\n" for line in lines)])

    def describe_services(self) -> str:
        """Return the state of each service and the end of its log, for reports of failures."""
        ended = {name: child.poll() for name, child in self._children.items()}
        states = {name: "runs" if status is None else f"ended with status {status}" for name, status in ended.items()}
        return "".join(f"{name} {state}{self._tail(name)}" for name, state in states.items())

    def check(self, *others: int) -> None:
        """Restart services that ended and may be restarted; StackError for others. Collects adopted orphans.

        `others`: children that the caller started itself and waits for."""
        processes.reap_adopted([*self._others, *others, *(child.pid for child in self._children.values())])
        for name, child in list(self._children.items()):
            if child.poll() is None:
                continue
            if not self._services[name].restart:
                raise StackError(f"{name} ended with status {child.returncode}{self._tail(name)}")
            print(f"{name} ended with status {child.returncode}; restarting it", file=sys.stderr)
            _end_session(child.pid, signal.SIGTERM, self._services[name].grace_s)
            self._spawn(self._services[name])

    def serve(self) -> NoReturn:
        """Keep everything running until a signal raises Stopped."""
        while True:
            self.check()
            time.sleep(1)

    def stop(self) -> None:
        """End all services in reverse order, then their remaining descendants."""
        with contextlib.ExitStack() as last_first:  # each one is ended, even if another fails
            last_first.callback(processes.end_descendants, 10, self._others)
            for name in self._children:
                last_first.callback(self.end, name)
        self._ledger.unlink(missing_ok=True)

    def end(self, name: str) -> None:
        """End one service: send its stop signal to the leader, then SIGKILL to what is left of its session."""
        child, service = self._children.pop(name), self._services.pop(name)
        if child.poll() is None:
            child.send_signal(service.stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(service.grace_s)
        _end_session(child.pid, signal.SIGKILL, 2)
        child.wait(2)


def _raise_stopped(signum: int, _frame: FrameType | None) -> None:
    raise Stopped(signal.Signals(signum).name)


def _end_session(sid: int, sig: signal.Signals, grace_s: float) -> None:
    """Signal all processes of a session until none is left, from grace_s on with SIGKILL. StackError if that fails."""
    killing = time.monotonic() + grace_s
    while members := processes.in_session(sid):
        if time.monotonic() > killing + processes.KILL_S:
            raise StackError(f"processes {[p.pid for p in members]} cannot be ended; check the disk for stuck I/O")
        processes.send(members, sig if time.monotonic() < killing else signal.SIGKILL)
        time.sleep(POLL_S)


def sweep(ledger: Path) -> None:
    """End processes that a killed supervisor had started, and delete its list."""
    for sid in _survivors(ledger):
        _end_session(sid, signal.SIGTERM, 3)
    ledger.unlink(missing_ok=True)


def _survivors(ledger: Path) -> Iterator[int]:
    """Yield sessions of the list that still exist: same boot, and the leader gone or with the same start time."""
    if not ledger.exists():
        return
    record = json.loads(ledger.read_text())
    if record["boot_id"] != processes.boot_id():
        return
    for row in record["children"]:
        leader = processes.read(row["pid"])
        if leader is None or leader.start == row["start"]:
            yield row["pid"]

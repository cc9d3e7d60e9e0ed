"""Many simulated hosts in one process: python -m tests.benchmarks.fleet.simulator STATE.

An SSH server whose every login with `rpc --spool DIRECTORY` leads to the host of that directory. There is no agent
process: each host answers from memory with the frames, events and manifest of an honest agent whose program sleeps,
while two collectors take a sample of this machine each second. STATE/host.json has the facts and the hello of a real
host.
"""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import shlex
import signal
import sys
import time
import uuid
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh

from agents.collectors.base import Subject
from agents.collectors.cpu import Cpu
from agents.collectors.memory import Memory
from agents.host.system import System
from agents.wire import protocol
from embedded.servers.loopback import ADDRESS, CHUNK, Gate, Loopback
from tests.hostile.agent import Agent, event_line

STEP, EVENTS = "measure", "events.ndjson"


def machine_id(spool: str) -> str:
    """The machine-id of the host with this spool directory."""
    return uuid.uuid5(uuid.NAMESPACE_URL, spool).hex


class Samples:
    """The newest sample of each collector, which all hosts share because they are on the same machine."""

    def __init__(self) -> None:
        subject = Subject(Path("/"))
        self._collectors = [Cpu(System(), subject), Memory(System(), subject)]
        for collector in self._collectors:
            collector.start()
        self.newest: dict[str, dict[str, float]] = {}

    async def take(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.newest = {collector.name: collector.sample() for collector in self._collectors}


class SimulatedHost(Agent):
    """An honest host. Its run lasts until it is cancelled. Events that the server has stored are forgotten, so that a
    server that reads them again gets an error."""

    def __init__(self, spool: str, known: dict[str, Any], samples: Samples) -> None:
        super().__init__(Path(spool))
        self._known, self._machine_id, self._samples = known, machine_id(spool), samples
        self._sealed = False
        self._seq, self._began, self._next_at = 0, 0.0, 0.0
        self._stored, self._events = 0, bytearray()  # bytes before those in memory; the bytes after them

    @property
    def plan(self) -> dict[str, Any]:
        identity = {"machine_id": self._machine_id}
        busy, sealed = (None if self._sealed else self._run or None), [self._run] if self._sealed else []
        clocks = {"wall": time.time(), "mono": time.monotonic()}
        hello = {**self._known["hello"], **identity, **clocks, "busy": busy, "sealed": sealed}
        return {"facts": {**self._known["facts"], **identity}, "hello": hello}

    def wait_s(self, request: dict[str, Any]) -> float:
        """How long the answer to this request waits for another one."""
        return 0.0 if self._sealed else float(request["args"].get("wait_s", 0.0))

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """The message with the answer, or with the error."""
        verb, args = request["verb"], request["args"]
        try:
            return {"id": request["id"], "ok": True, "result": self.answer(verb, args)}
        except ValueError as error:
            failure = {"blame": "agent", "message": str(error), "hint": "the benchmark has found an error"}
            return {"id": request["id"], "ok": False, "error": failure}

    def answer(self, verb: str, args: dict[str, Any]) -> Any:
        if verb == "submit" and not self._sealed and self._run not in ("", args["run"]):
            raise ValueError(f"run {args['run']} was submitted while {self._run} is on the host")
        if verb == "cancel" and not self._sealed:
            self._end()
        if verb == "purge":
            self._run, self._sealed = "", False
        return super().answer(verb, args)

    def _work(self) -> None:
        """The run has begun."""
        self._seq, self._stored, self._events, self._sealed = 0, 0, bytearray(), False
        self._began = time.time()
        self._next_at = self._began + 1.0
        for state in ("APPLYING", "VERIFIED", "RUNNING"):
            self._emit(self._began, "state", {"state": state, "step": STEP if state == "RUNNING" else ""})
        self._emit(self._began, "measuring", {"step": STEP, "began": self._began})

    def _emit(self, wall: float, kind: str, data: dict[str, Any]) -> None:
        self._seq += 1
        clocks = {"boot_id": self._known["hello"]["boot_id"], "wall": wall, "mono": round(wall - self._began, 6)}
        self._events += event_line(self._seq, {**clocks, "kind": kind, "data": data})

    def _sample(self) -> None:
        """The samples since the last call."""
        while not self._sealed and self._next_at <= time.time():
            t = round(self._next_at - self._began, 3)
            for source, values in self._samples.newest.items():
                self._emit(self._next_at, "sample", {"step": STEP, "source": source, "t": t, "values": values})
            self._next_at += 1.0

    def _end(self) -> None:
        """The run is cancelled, its host restored, and the run sealed."""
        self._sample()
        now = time.time()
        self._emit(now, "measured", {"step": STEP, "began": self._began, "ended": now, "costs": {}})
        for state in ("ROLLING_BACK", "CLEAN"):
            self._emit(now, "state", {"state": state, "step": STEP})
        self._emit(now, "outcome", {"outcome": "cancelled", "error": None})
        self._files = {}
        self._seal(self._seq, outcome="cancelled")
        self._sealed = True

    def _read(self, args: dict[str, Any]) -> dict[str, Any]:
        if args["path"] != EVENTS:
            return super()._read(args)
        self._sample()
        size, gone = self._stored + len(self._events), args["offset"] - self._stored
        if not 0 <= gone <= len(self._events):
            raise ValueError(f"offset {args['offset']} of {EVENTS}: {self._stored} to {size} are here")
        del self._events[:gone]
        self._stored += gone
        data = base64.b64encode(self._events[: args["limit"]]).decode()
        return {"data": data, "size": size, "sealed": self._sealed}


class Connection:
    """The requests that the server has sent, and the pause of a `read` that the next request ends."""

    def __init__(self, process: asyncssh.SSHServerProcess[bytes], host: SimulatedHost) -> None:
        self._process, self._host = process, host
        self._requests: deque[dict[str, Any]] = deque()
        self._news, self._has_ended = asyncio.Event(), False

    async def serve(self) -> None:
        feeding = asyncio.create_task(self._feed())
        while await self._has_request(None):
            request = self._requests.popleft()
            if wait_s := self._host.wait_s(request):
                await self._has_request(wait_s)
            self._process.stdout.write(protocol.encode(self._host.reply(request)))
        await feeding
        self._process.exit(0)

    async def _has_request(self, wait_s: float | None) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not (self._requests or self._has_ended):
                    self._news.clear()
                    await self._news.wait()
        return bool(self._requests)

    async def _feed(self) -> None:
        reader = protocol.FrameReader()
        with suppress(asyncssh.Error, OSError):
            while data := await self._process.stdin.read(CHUNK):
                self._requests.extend(reader.feed(data))
                self._news.set()
        self._has_ended = True
        self._news.set()


async def _main(server: Loopback, known: dict[str, Any]) -> None:
    stop, samples, hosts = asyncio.Event(), Samples(), dict[str, SimulatedHost]()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sampling = asyncio.create_task(samples.take())

    def log_in(process: asyncssh.SSHServerProcess[bytes]) -> Awaitable[None]:
        spool = shlex.split(process.command or "")[-1]
        host = hosts.get(spool) or hosts.setdefault(spool, SimulatedHost(spool, known, samples))
        return Connection(process, host).serve()

    await asyncssh.listen(
        ADDRESS,
        server.port,
        backlog=1000,
        server_factory=lambda: Gate(server),
        server_host_keys=[str(server.key_file)],
        process_factory=log_in,
        encoding=None,
        line_editor=False,
        config=None,
    )
    await stop.wait()
    sampling.cancel()


def main(state: Path) -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))  # a connection takes one
    asyncio.run(_main(Loopback(state), json.loads((state / "host.json").read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

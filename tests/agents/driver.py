"""The real agent, built and called as the server calls it: frames on its stdin and stdout."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from agents.wire import protocol
from agents.wire.protocol import FrameReader

MOST_BYTES = 400_000  # of the agent: each host gets it over SSH
OK: dict[str, Any] = {"outcome": "ok", "error": None}  # the data of the outcome of a run without a failure


class Refused(Exception):
    """An answer that is a Failure."""

    def __init__(self, failure: dict[str, Any]) -> None:
        super().__init__(failure["message"])
        self.failure = failure


class Connection:
    """One `agent rpc`, with a limit on every answer."""

    def __init__(
        self, program: Path, spool: Path, python: Sequence[str] = (sys.executable,), stderr: IO[bytes] | None = None
    ) -> None:
        """`python` is the interpreter with its options, and what it is started under."""
        argv = [*python, "-I", str(program), "rpc", "--spool", str(spool)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        self._reader, self._id, self._waiting = FrameReader(), 0, select.poll()
        assert self.process.stdout
        self._waiting.register(self.process.stdout, select.POLLIN)

    def call(self, verb: str, **args: Any) -> Any:
        assert self.process.stdin
        self._id += 1
        self.process.stdin.write(protocol.encode({"id": self._id, "verb": verb, "args": args}))
        self.process.stdin.flush()
        answer = self._answer(time.monotonic() + 90)
        assert answer["id"] == self._id
        if not answer["ok"]:
            raise Refused(answer["error"])
        return answer["result"]

    def _answer(self, deadline: float) -> Any:
        assert self.process.stdout
        fd = self.process.stdout.fileno()
        while True:
            assert self._waiting.poll(max(0.0, deadline - time.monotonic()) * 1000), "no answer in time"
            data = os.read(fd, 1 << 16)
            assert data, "the agent closed the connection"
            for message in self._reader.feed(data):
                return message

    def submit(self, spec: dict[str, Any], run: str = "", epoch: int = 1, access: dict[str, str] | None = None) -> str:
        run = run or str(uuid.uuid4())
        known = {} if access is None else {"access": access}
        self.call("submit", run=run, epoch=epoch, digest=protocol.digest(spec), spec=spec, **known)
        return run

    def file(self, run: str, path: str) -> bytes:
        return base64.b64decode(self.call("read", run=run, path=path, offset=0)["data"])

    def events(self, run: str, until: str = "", limit_s: float = 60) -> list[dict[str, Any]]:
        """All events up to the seal, or up to the first of the kind (or state) `until`."""
        data, deadline = b"", time.monotonic() + limit_s
        while time.monotonic() < deadline:
            answer = self.call("read", run=run, path="events.ndjson", offset=len(data), wait_s=1)
            data += base64.b64decode(answer["data"])
            data = data[: data.rfind(b"\n") + 1]  # half a line may be cut off again
            events = [json.loads(line) for line in data.split(b"\n")[:-1]]
            if any(until in (e["kind"], e["data"].get("state")) for e in events):
                return events
            if answer["sealed"] and len(data) >= answer["size"]:
                return events
        raise AssertionError(f"no end within {limit_s} s: {data[-2000:]!r}")

    def manifest(self, run: str) -> tuple[dict[str, Any], str]:
        data = self.file(run, "manifest.json")
        return json.loads(data), hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def of(events: list[dict[str, Any]], kind: str, **values: Any) -> list[dict[str, Any]]:
    """The data of events of a kind whose data has these values."""
    data = [event["data"] for event in events if event["kind"] == kind]
    return [item for item in data if all(item.get(key) == value for key, value in values.items())]

"""An agent with exactly one lie: python agent.py PLAN ...

PLAN is a JSON file: {"facts": the honest ones, "hello": changes to them, "lie": {"table": "answers" and "verb",
"number"; or "runs", "number"; or "files", "name"}}. It is read for each request, so that one connection serves many
lies.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from agents.wire.protocol import canonical, checksum
from tests.hostile import greetings, lies

WALL = 1.7e9
OUTPUT = b"""pgbench (15.5 (Debian 15.5-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 1
query mode: simple
number of clients: 2
number of threads: 1
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 2000
number of failed transactions: 0 (0.000%)
latency average = 2.000 ms
initial connection time = 3.000 ms
tps = 1000.000000 (without initial connection time)
"""


class Agent:
    """Answers by the plan; a run that was submitted is sealed at once."""

    def __init__(self, plan: Path) -> None:
        self._path = plan
        self._files: dict[str, bytes] = {}
        self._run = ""

    @property
    def plan(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._path.read_text())
        return content

    def lie(self, where: str) -> lies.Lie | None:
        planned_lie = self.plan.get("lie") or {}
        lie = lies.RUNS[planned_lie["number"]] if planned_lie.get("table") == "runs" else None
        return lie if lie and lie.where.split()[0] == where else None

    def answer(self, verb: str, args: dict[str, Any]) -> Any:
        planned_lie = self.plan.get("lie") or {}
        if planned_lie.get("table") == "answers" and planned_lie["verb"] == verb:
            return lies.ANSWERS[verb][planned_lie["number"]]
        honest = self._honest(verb, args)
        lie = self.lie(verb)
        return lie.tell(honest) if lie else honest

    def _honest(self, verb: str, args: dict[str, Any]) -> Any:
        if verb == "hello":
            return {**lies.HONEST["hello"], **self.plan.get("hello", {})}
        if verb == "health":
            return lies.HONEST["health"] | {"wall": time.time()}
        if verb == "facts":
            return self.plan["facts"]
        if verb == "submit" and args["run"] != self._run:
            self._run = args["run"]
            self._work()
        if verb == "read":
            return self._read(args)
        if verb == "collect":
            near = {path: data for path, data in self._files.items() if len(data) < 1 << 20 and path != "events.ndjson"}
            return {"files": {path: base64.b64encode(data).decode() for path, data in near.items()}}
        return lies.HONEST[verb]

    def _read(self, args: dict[str, Any]) -> dict[str, Any]:
        whole = self._files.get(args["path"], b"")
        data = whole[args["offset"] : args["offset"] + args["limit"]]
        return {"data": base64.b64encode(data).decode(), "size": len(whole), "sealed": True}

    def more_files(self) -> dict[str, bytes]:
        """Artefacts of the run, by path."""
        return {}

    def _work(self) -> None:
        """The events, files and the manifest of a run of a second, with the lie in one of them."""
        records: list[dict[str, Any]] = [
            {"kind": "state", "data": {"state": "RUNNING", "step": "measure"}},
            {"kind": "measuring", "data": {"step": "measure", "began": WALL}},
            {"kind": "measured", "data": {"step": "measure", "began": WALL, "ended": WALL + 1, "costs": {}}},
            {"kind": "log", "data": {"level": "info", "message": "done"}},
        ]
        lie = self.lie("event")
        records = lie.tell(records) if lie else records
        events = b"".join(event_line(number, record) for number, record in enumerate(records, 1))
        if lie := self.lie("bytes"):
            events = lie.tell(events)
        self._files = {"events.ndjson": events, "out/measure/stdout": OUTPUT, **self.more_files()}
        planned_lie = self.plan.get("lie") or {}
        if planned_lie.get("table") == "files":
            path, data = lies.FILES[planned_lie["name"]]
            self._files[path] = data
        self._seal(len(records))

    def _seal(self, last_seq: int, **fields: Any) -> None:
        """Write the manifest of the run, with the lie if it is about that."""
        named = [_described(path, data) for path, data in self._files.items() if path != "events.ndjson"]
        manifest: dict[str, Any] = {
            "run": self._run,
            "outcome": "ok",
            "error": None,
            "clean": True,
            "conflicts": [],
            "last_seq": last_seq,
            "timings": {},
            "files": named,
            **fields,
        }
        if lie := self.lie("manifest"):
            manifest = lie.tell(manifest)
        self._files["manifest.json"] = canonical(manifest)


def event_line(seq: int, record: dict[str, Any]) -> bytes:
    """A line of events.ndjson. `record` may have its own boot_id, wall and mono."""
    record = {"seq": seq, "boot_id": "b", "wall": WALL + seq, "mono": 1.0, **record}
    return canonical({**record, "crc": checksum(record)}) + b"\n"


def _described(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


if __name__ == "__main__":
    agent = Agent(Path(sys.argv[1]))
    while True:
        request = greetings.next_request()
        greetings.say(greetings.answer(agent.answer(request["verb"], request["args"]), request["id"]))

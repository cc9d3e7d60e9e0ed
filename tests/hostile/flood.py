"""An agent that floods the server, each run in another way: python flood.py PLAN ...

PLAN is a JSON file: {"facts": ..., "hello": {"machine_id"}, "first": the first kind of flood}. The number of runs so
far is stored beside it, so that a new connection continues.
"""

from __future__ import annotations

import base64
import sys
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from agents.wire.protocol import canonical, checksum
from tests.hostile import greetings
from tests.hostile.agent import Agent

READ, BIG = 1 << 20, b"\0" * (15 << 20)
WAYS = ("samples", "line without end", "damaged lines", "artefacts", "conflicts", "stdout", "stderr", "line in drops")


class Flooder(Agent):
    """Honest until a run is submitted."""

    def __init__(self, plan: Path) -> None:
        super().__init__(plan)
        self._count, self._seq = plan.with_suffix(".count"), 0

    @property
    def way(self) -> str:
        runs = int(self._count.read_text()) if self._count.exists() else 0
        return WAYS[(self.plan["first"] + runs) % len(WAYS)]

    def answer(self, verb: str, args: dict[str, Any]) -> Any:
        if verb == "submit":
            self._next(args["run"])
        if verb == "hello" and self.way == "conflicts":
            return {**super().answer(verb, args), "conflicts": [str(uuid.uuid4()) for _ in range(5000)]}
        if verb == "read" and args["path"] == "events.ndjson" and self.way not in ("artefacts", "conflicts"):
            return self._flood(args)
        return super().answer(verb, args)

    def more_files(self) -> dict[str, bytes]:
        """Nearly as much as the server fetches of a run."""
        return {f"out/big{number}": BIG for number in range(15)} if self.way == "artefacts" else {}

    def _next(self, run: str) -> None:
        """Count a run that is new."""
        known = self._count.with_suffix(".run")
        if not known.exists() or known.read_text() != run:
            runs = int(self._count.read_text()) if self._count.exists() else -1
            self._count.write_text(str(runs + 1))
            known.write_text(run)

    def _flood(self, args: dict[str, Any]) -> dict[str, Any]:
        way = self.way
        if way == "stdout":
            greetings.for_ever(b"s" * 65_536)
        if way == "stderr":
            greetings.for_ever(b"e" * 65_536, 2)
        if way == "line in drops":
            return {"data": base64.b64encode(b"x").decode(), "size": args["offset"] + 2, "sealed": False}
        data = {"samples": self._samples, "damaged lines": lambda: b"x" * 99 + b"\n"}.get(way, lambda: b"x" * 1000)()
        data = data * (READ // len(data)) if len(data) < READ // 2 else data
        return {"data": base64.b64encode(data).decode(), "size": args["offset"] + len(data) + 1, "sealed": False}

    def _samples(self) -> bytes:
        """As many events as a read takes."""
        lines, size = [], 0
        while size < READ - 8000:
            self._seq += 1
            values = {f"c{number}": 1.5 for number in range(500)}
            data = {"step": "measure", "source": "cpu", "t": self._seq, "values": values}
            record = {"seq": self._seq, "boot_id": "b", "wall": 1.7e9, "mono": 1.0, "kind": "sample", "data": data}
            lines.append(canonical({**record, "crc": checksum(record)}) + b"\n")
            size += len(lines[-1])
        return b"".join(lines)


if __name__ == "__main__":
    agent = Flooder(Path(sys.argv[1]))
    while True:
        request = greetings.next_request()
        greetings.say(greetings.answer(agent.answer(request["verb"], request["args"]), request["id"]))

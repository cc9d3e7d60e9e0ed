"""Lies before and around an answer, one at a time.

python greetings.py LIE [command of the server...]
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.hostile.lies import many_cpus

MAGIC = b"\nPGF1"
HELLO: dict[str, Any] = {
    "agent": "ab" * 32,
    "version": "1.0",
    "commit": "",
    "protocol": 1,
    "python": "3.11.2",
    "level": "root",
    "supervisor": "detached",
    "units": "absent",
    "machine_id": "5" * 32,
    "boot_id": "1" * 32,
    "epoch": 0,
    "busy": None,
    "dirty": [],
    "conflicts": [],
    "sealed": [],
    "recovered": [],
    "wall": 1.0,
    "mono": 1.0,
}


def say(data: bytes, to: int = 1) -> None:
    while data:
        data = data[os.write(to, data) :]


def frame(payload: bytes) -> bytes:
    return MAGIC + len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big") + payload


def answer(result: Any, number: int = 1) -> bytes:
    return frame(json.dumps({"id": number, "ok": True, "result": result}).encode())


def for_ever(data: bytes, to: int = 1) -> None:
    while True:
        say(data, to)


def next_request() -> dict[str, Any]:
    """The next request; SystemExit when the server has hung up."""
    head = os.read(0, len(MAGIC) + 8)
    if len(head) < len(MAGIC) + 8:
        raise SystemExit
    size, data = int.from_bytes(head[len(MAGIC) : -4], "big"), b""
    while len(data) < size:
        data += os.read(0, size - len(data))
    return dict(json.loads(data))


def serve(results: dict[str, Any]) -> None:
    """Answer each verb with its result, and those that are not named with an empty object."""
    while True:
        request = next_request()
        say(answer(results.get(request["verb"], {}), request["id"]))


def _stderr_at_the_end() -> None:
    os.close(1)
    for_ever(b"e" * 65536, 2)


def _flood_the_push() -> None:
    if "-c" not in sys.argv:
        raise SystemExit(2)  # no such agent: it is sent
    for_ever(b"p" * 65536, 2)


def _flood_the_push_on_stdout() -> None:
    if "-c" not in sys.argv:
        raise SystemExit(2)
    for_ever(b"p" * 65536)


LIES: dict[str, Callable[[], None]] = {
    "endless greeting": lambda: for_ever(b"hello " * 10_000),
    "endless stderr": lambda: for_ever(b"e" * 65536, 2),
    "endless stderr at the end": _stderr_at_the_end,
    "endless stderr of the push": _flood_the_push,
    "endless stdout of the push": _flood_the_push_on_stdout,
    "answers to nobody": lambda: for_ever(answer("x" * 60_000, 99)),
    "absurd length": lambda: say(MAGIC + b"\xff" * 8 + b"x" * 1000),
    "half a frame": lambda: (say(frame(b"x" * 100_000)[:5000]), time.sleep(60))[0],
    "deep": lambda: say(frame(b"[" * 4_000_000)),
    "no object": lambda: say(frame(b"[1]")),
    "no id": lambda: say(frame(b"{}") * 100_000),
    "not JSON": lambda: say(frame(b"\xff\xfe")),
    "result of another kind": lambda: serve({"hello": 7}),
    "error of another kind": lambda: say(frame(b'{"id": 1, "ok": false, "error": [1]}')),
    "NUL in the last words": lambda: (say(b"a\0b\xff", 2), sys.exit(1))[0],
    "NUL in an error": lambda: say(frame(b'{"id": 1, "ok": false, "error": {"message": "a\\u0000b\\ud800"}}')),
    "endless error": lambda: say(frame(b'{"id": 1, "ok": false, "error": {"message": "%s"}}' % (b"m" * 7_000_000))),
    "hello with NUL": lambda: serve({"hello": HELLO | {"machine_id": "a\0b"}}),
    "hello with 20,000 runs": lambda: serve({"hello": HELLO | {"dirty": ["x" * 36] * 20_000}}),
    "endless recovered": lambda: serve({"hello": HELLO | {"recovered": [{"run": "r", "did": ["d" * 900] * 900}] * 9}}),
    "facts of another kind": lambda: serve({"hello": HELLO, "facts": [1]}),
    "facts with 20,000,000 cpus": lambda: serve({"hello": HELLO, "facts": many_cpus("online")}),
    "large facts": lambda: serve({"hello": HELLO, "facts": {"more": ["x"] * 1_500_000}}),
}


if __name__ == "__main__":
    LIES[sys.argv[1]]()

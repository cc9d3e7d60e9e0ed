"""The table of lies and their outcomes. Nothing of the server, because the agent imports it.

A verb of the protocol, or a kind of event, without a row here fails test_table.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.servers.machine import facts

RUN = "11111111-2222-3333-4444-555555555555"
FAILS, UNREACHABLE, WAITS, OK = "failed", "unreachable", "waits", "ok"
HUGE = 10**18
NAN, INFINITY = float("nan"), float("inf")


def deep(levels: int = 100) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


def keys(count: int) -> dict[str, int]:
    return {f"key{number}": number for number in range(count)}


def many_cpus(name: str) -> dict[str, Any]:
    """Honest facts but for one list of CPUs, of which each CPU would become an object: 2 GiB."""
    return facts(cpus=facts()["cpus"] | {name: "0-20000000"})


STATUS = {"run": RUN, "state": "RUNNING", "step": "", "outcome": "", "alive": True, "last_seq": 1, "error": None}
# What an honest agent answers to each verb; agent.py has the rest of facts, health, read and collect.
HONEST: dict[str, Any] = {
    "hello": {
        "agent": "ab" * 32,
        "version": "1.0",
        "commit": "",
        "protocol": 1,
        "python": "3.11.2",
        "level": "user",
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
        "wall": 1.7e9,
        "mono": 1.0,
    },
    "health": {"space": [], "restart_due": False, "failed_units": [], "celsius": None, "wall": 1.7e9},
    "discover": {"sysctl": {"value": {}, "keys": {"vm.swappiness": "60"}, "refused": None}},
    "parameters": [{"name": "main", "data_dir": "/d", "settings": {"work_mem": {"setting": "4096"}}, "refused": None}],
    "remote": {
        "version": "15.3",
        "system_identifier": "7300000000000000000",
        "timeline": 1,
        "started": 1.7e9,
        "standby": False,
        "address": "10.0.0.5",
        "superuser": False,
        "createdb": True,
        "tls": "TLSv1.3",
        "client": 15,
        "settable": {"session": ["work_mem"], "system": []},
        "restart": ["shared_buffers"],
        "extensions": {"installed": ["plpgsql"], "available": []},
        "round_trip_ms": {"min": 0.2, "median": 0.3},
    },
    "check": {"failures": [{"step": "measure", "script": "", "line": None, "message": "no", "said": "no"}]},
    **dict.fromkeys(("submit", "status", "cancel", "finish", "ack"), STATUS),
    "read": {"data": "", "size": 0, "sealed": False},
    "collect": {"files": {}},
    "restore": {"recovered": []},
    "end_boot": {"recovered": []},
    "install": {"written": ["/etc/systemd/system/x"]},
    "uninstall": {"removed": ["/etc/systemd/system/x"]},
    "nudge": {},
    "purge": {},
    "facts": {},
}

# For each verb: what is answered in the place of the whole, each refused.
ANSWERS: dict[str, list[Any]] = {
    **{verb: [None, 7, "text", [7], True] for verb in HONEST},
    "hello": [
        *(None, [], {}),
        *(HONEST["hello"] | odd for odd in ({"machine_id": "a\0b"}, {"epoch": NAN}, {"epoch": HUGE * 100})),
        *(HONEST["hello"] | odd for odd in ({"sealed": [RUN] * 10_001}, {"more": deep()}, {"busy": "somebody"})),
    ],
    "parameters": [None, {}, [7]],
    "health": [None, {}, HONEST["health"] | {"wall": INFINITY}, HONEST["health"] | {"space": [{"path": 7}]}],
    "discover": [None, [], {"sysctl": 7}, keys(10), {"sysctl": {"value": 1, "keys": {"a": 7}, "refused": None}}],
    "remote": [
        *(None, {}),
        *(
            HONEST["remote"] | odd
            for odd in ({"timeline": "1"}, {"system_identifier": "x"}, {"settable": ["work_mem"]})
        ),
        *(HONEST["remote"] | odd for odd in ({"round_trip_ms": {"min": -1, "median": 1}}, {"restart": ["x"] * 6000})),
    ],
    "check": [None, {"failures": [7]}, {"failures": [{"step": "x", "said": deep()}]}],
    "read": [
        *(None, {}),
        *(HONEST["read"] | odd for odd in ({"data": 7}, {"size": -1}, {"size": HUGE * 100}, {"sealed": "yes"})),
    ],
    "collect": [None, {"files": []}, {"files": {"a": 7}}, {"files": {"a": "no base64: \0"}}, {"files": keys(10)}],
    "status": [None, [], {"state": "ASLEEP"}, {"last_seq": -HUGE}, {"conflicts": [{}] * 2000}, {"error": "no"}],
    "facts": [
        *(None, [1], {}, facts(cpus={"online": "0-20000000"}), facts(memory=None), facts(sysctls={"a": 7})),
        *(many_cpus(name) for name in ("online", "allowed", "isolated", "nohz_full")),
        *(facts(cpus=facts()["cpus"] | {"caches": [{"level": 1, "type": "Data", "kb": 1, "shared": None}]}),),
    ],
}


@dataclass(frozen=True)
class Lie:
    """In which verb or event of a run, what it is, how the run ends, and words of the cause that a person reads."""

    where: str
    name: str
    ends: str
    says: str
    tell: Callable[[Any], Any]


def event(kind: str, data: Any, ends: str = FAILS, says: str = "only 4 of 5 events are complete") -> Lie:
    """One more event of this kind, which is lost: so the run fails."""
    return Lie(f"event {kind}", str(data)[:60], ends, says, lambda records: [*records, {"kind": kind, "data": data}])


def changed(name: str, says: str, ends: str = FAILS, **fields: Any) -> Lie:
    """A field of the last event that is not as it should be."""
    return Lie("event", name, ends, says, lambda records: [*records[:-1], {**records[-1], **fields}])


def sealed(name: str, says: str, ends: str = FAILS, **fields: Any) -> Lie:
    return Lie("manifest", name, ends, says, lambda manifest: manifest | fields)


def answered(verb: str, name: str, ends: str, says: str, **fields: Any) -> Lie:
    return Lie(verb, name, ends, says, lambda honest: honest | fields)


def raw(name: str, says: str, data: bytes) -> Lie:
    """Bytes after the honest events."""
    return Lie("bytes", name, FAILS, says, lambda events: events + data)


LOST = "are complete"
RULES = "invalid answer"
PROOF = {
    "setting": "sysctl",
    "phase": "before",
    "subject": "x",
    "wanted": "1",
    "found": "1",
    "ok": True,
    "evidence": {},
}
DATASET = {
    "fingerprint": "f" * 64,
    "home": "/c",
    "name": "d",
    "kind": "pgbench",
    "options": {},
    "major": 15,
    "database": "ds",
    "state": "pristine",
    "size": 1,
    "seconds": [],
    "made_by": None,
    "made_at": None,
    "relations": {},
    "used": {"means": "copy", "reason": "", "seconds": 1, "wrote": None},
}
CONFLICT = {"key": "k", "original": "1", "ours": "2", "found": "3"}
FILE = {"path": "out/measure/x", "size": 3, "sha256": "0" * 64}

RUNS: list[Lie] = [
    # Answers
    answered("hello", "a future epoch", WAITS, "the host reports an epoch of", epoch=2**62),
    answered("hello", "another machine-id", WAITS, "it was 55555555", machine_id="6" * 32),
    answered("hello", "level of another type", UNREACHABLE, RULES, level=["root"]),
    answered("hello", "protocol of the future", WAITS, "speaks protocol 99", protocol=99),
    Lie("facts", "a list", WAITS, RULES, lambda facts: [facts]),
    Lie("facts", "20,000,000 cpus", WAITS, "facts: cpus: online: '0-20000000' is not", lambda _: many_cpus("online")),
    Lie("facts", "a null", WAITS, "facts: memory: total_kb", lambda honest: honest | {"memory": {"total_kb": None}}),
    Lie("submit", "a text", FAILS, RULES, lambda status: "done"),
    answered("read", "no base64", FAILS, "cannot be processed", data="?" * 100),
    answered("read", "sealed of another type", FAILS, RULES, sealed="yes"),
    answered("read", "an integer of 400 digits", FAILS, RULES, size=10**400),
    Lie(
        "read",
        "three bytes at a time",
        FAILS,
        "an event in more than 20 parts",
        lambda honest: honest | {"data": honest["data"][:4]},
    ),
    answered("collect", "files that are numbers", FAILS, RULES, files={"manifest.json": 7}),
    answered("ack", "a text", OK, "", last_seq="many"),
    Lie("purge", "a list", OK, "", lambda status: []),
    # Events
    changed("seq leaps forward", "events in", seq=2**31 - 1),
    changed("seq leaps backwards", LOST, seq=1),
    changed("seq beyond PostgreSQL's integer", LOST, seq=HUGE),
    changed("seq is true", LOST, seq=True),
    changed("wall is NaN", LOST, wall=NAN),
    changed("wall of the year 10^9", LOST, wall=1e18),
    changed("an unknown kind", LOST, kind="gossip"),
    changed("a kind of another type", LOST, kind=["log"]),
    event("state", {"state": "ASLEEP"}),
    event("state", {"state": "RUNNING", "step": "x" * 41}),
    event("state", {"state": "REBOOTING", "step": "measure"}, OK, ""),
    event("progress", {"done": "half"}),
    event("sample", {"step": "measure", "source": "cpu", "t": "late", "values": {"user": 1}}),
    event("sample", {"step": "measure", "source": "cpu", "t": 1, "values": [1]}),
    event("sample", {"step": "measure", "source": ["cpu"], "t": 1, "values": {}}),
    event("sample", {"step": "measure", "source": "cpu", "t": 1, "values": keys(5000)}),
    event("measuring", {"step": 7, "began": 1.0}),
    event("measured", {"step": "measure", "began": "now", "ended": 2.0}),
    event("command", {"purpose": "load", "argv": "rm -rf /"}),
    event("write", {"setting": "sysctl"}),
    event("proof", PROOF | {"evidence": None}),
    event("proof", PROOF | {"ok": "yes"}),
    event("proof", PROOF | {"evidence": {"deep": deep()}}),
    event("dataset", DATASET | {"made_by": "somebody"}),
    event("dataset", DATASET | {"used": {**DATASET["used"], "copy_id": 7}}),  # type: ignore[dict-item]
    event("dataset", DATASET | {"major": HUGE}),
    event("listening", {"address": "127.0.0.1", "port": "any", "database": "d"}),
    event("serving", {"port": HUGE}),
    event("released", []),
    event("waiting", {"changes": [{"name": "work_mem", "wanted": "1GB", "found": 4}], "limit_s": 60}),
    event("log", {"message": ["no text"]}),
    event("log", {"message": "a\0b", "values": [INFINITY, HUGE * 100]}, OK, ""),
    event("outcome", {"outcome": "splendid"}),
    # Bytes
    raw("a line that is no JSON", LOST, b"{" * 100 + b"\n"),
    raw("100,000 levels", LOST, b"[" * 100_000 + b"\n"),
    raw("300,000 keys", LOST, b"{" + b",".join(b'"%d":1' % n for n in range(300_000)) + b"}\n"),
    raw("200,000 empty lines", "lines of events in", b"\n" * 200_000),
    raw("2,000 damaged lines", "damaged events, at most", (b"x" * 100 + b"\n") * 2000),
    raw("a line without end", "an event of more than", b"x" * (9 << 20)),
    # Manifest and artefacts
    sealed("an unknown outcome", "manifest.json is not usable: outcome", outcome="splendid"),
    sealed("an error that is a text", "manifest.json is not usable: error", error="no"),
    sealed("20,000 conflicts", "20,000 entries, at most 1,000", conflicts=[CONFLICT] * 20_000),
    sealed("an artefact outside", "files: [0]: path", files=[FILE | {"path": "../../etc/cron.d/x"}]),
    sealed("an artefact twice", "a path appears twice", files=[FILE, FILE]),
    sealed("20,000 artefacts", "20,000 entries, at most", files=[FILE | {"path": f"o/{n}"} for n in range(20_000)]),
    sealed(
        "300 MiB of artefacts", "bytes to fetch", files=[FILE | {"path": f"{n}", "size": 15 << 20} for n in range(20)]
    ),
    sealed("more events than were sent", LOST, last_seq=1000),
    sealed("a megabyte of words", "", error={"message": "m" * 60_000, "hint": "h" * 60_000}, outcome="failed"),
    sealed("files that are not there", "x", files=[FILE | {"size": 0, "sha256": "1" * 64}]),
]

# Files of a run: what is read of them, and how that ends.
FILES: dict[str, tuple[str, bytes]] = {
    "series.json of 100,000 levels": ("out/measure/series.json", b"[" * 100_000),
    "series.json with text for numbers": (
        "out/measure/series.json",
        b'{"source":"fio","columns":{"t":["x"]}}',
    ),
    "a gzip that is cut": ("out/measure/stdout", bytes.fromhex("1f8b0800000000000003") + b"\0" * 50),
    "an output of NUL": ("out/measure/stdout", b"\0" * 100_000),
    "a latency.json of infinities": ("out/measure/latency.json", b'{"version":1,"all":{"count":1e999}}'),
    "a load.json that is a list": ("out/measure/load.json", b"[7]"),
}

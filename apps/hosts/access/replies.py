"""Validate every reply of an agent: type, size, and whether it can be stored. Pure.

A host may send anything. An invalid reply raises RefusedError, and nothing of it is stored. A new verb of the
protocol needs its row in ANSWERS."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agents.wire.protocol import STATES, canonical
from apps.hosts.access.fact_shapes import FACTS, LINE, OPEN_LISTS
from apps.hosts.access.shapes import (
    FAILURE,
    MAX_INTEGER,
    STEP,
    UUID,
    WALL,
    Shape,
    anything,
    many,
    maybe,
    number,
    plain,
    record,
    storable,
    table,
    text,
    truth,
    whole,
    word,
)
from apps.hosts.facts import changes, topology
from common.errors import HostError

MAX_RUNS = 10_000
MAX_BYTES = 8 << 20
MAX_QUERIED = 100  # clusters whose parameters are queried at a time
MAX_RECOVERED, MAX_DID, MAX_MESSAGE = 50, 20, 200
MAX_RECOVERED_BYTES = 16 << 10
_PATH = text(4096)
_LINE = text(500)
_STATUS = record(
    {},
    {
        "run": UUID,
        "state": maybe(word("", *STATES)),
        "step": maybe(STEP),
        "outcome": maybe(text(40)),
        "alive": truth,
        "last_seq": whole(),
        "error": maybe(FAILURE),
        "clean": maybe(truth),
        "conflicts": many(record({}), 1000),
    },
)
_RUNS = many(UUID, MAX_RUNS)
_HELLO = record(
    {
        "agent": text(64, "source|[0-9a-f]{64}"),
        "version": text(32, r"[\x20-\x7e]*"),
        "commit": text(64, r"[\x20-\x7e]*"),
        "protocol": whole(0, 1_000_000),
        "python": text(32, r"[\x20-\x7e]*"),
        "level": word("root", "user"),
        "supervisor": word("systemd", "detached"),
        "units": word("current", "outdated", "absent", "unavailable"),
        "machine_id": text(64, "[0-9A-Za-z-]+"),
        "boot_id": text(64, "[0-9A-Za-z-]+"),
        "epoch": whole(),
        "busy": maybe(UUID),
        "dirty": _RUNS,
        "conflicts": _RUNS,
        "sealed": _RUNS,
        "recovered": many(record({"run": anything}), MAX_RUNS),
        "wall": number(),
        "mono": number(),
    }
)
_SPACE = record({"path": _PATH, "free_kb": maybe(whole())})
_SETTING = record({"value": anything, "keys": table(maybe(text()), 1000, name=4096), "refused": maybe(FAILURE)})
_PARAMETERS = table(maybe(table(anything, 20)), 10_000)
_QUERIED = record({"name": LINE, "data_dir": _PATH, "settings": _PARAMETERS, "refused": maybe(FAILURE)})
_NAMES = many(text(200), 5000)
_COMPLAINT = record({"step": STEP, "script": maybe(_LINE), "line": maybe(whole()), "message": text(), "said": text()})
# Shapes of the replies to each verb.
ANSWERS: dict[str, Shape] = {
    "hello": _HELLO,
    "facts": FACTS,
    "health": record(
        {
            "space": many(_SPACE, 20),
            "restart_due": truth,
            "failed_units": many(_LINE, 20),
            "celsius": maybe(number(-300, 10_000)),
            "wall": WALL,
        }
    ),
    "discover": table(_SETTING, 200),
    "parameters": many(record({}), MAX_QUERIED),
    "check": record({"failures": many(_COMPLAINT, 1000)}),
    "remote": record(
        {
            **dict.fromkeys(("version", "tls"), text(200)),
            "system_identifier": text(20, "[0-9]+"),
            **dict.fromkeys(("timeline", "client"), whole(0, MAX_INTEGER)),
            "started": number(),
            **dict.fromkeys(("standby", "superuser", "createdb"), truth),
            "address": maybe(text(45)),
            "settable": record(dict.fromkeys(("session", "system"), _NAMES)),
            "restart": _NAMES,
            "extensions": record(dict.fromkeys(("installed", "available"), _NAMES)),
            "round_trip_ms": record(dict.fromkeys(("min", "median"), number(0, 1e6))),
        }
    ),
    "read": record({"data": text(MAX_BYTES), "size": whole(0, 1 << 62), "sealed": truth}),
    "collect": record({"files": table(text(MAX_BYTES, "[0-9A-Za-z+/]*=*"), 10_000, name=300)}),
    **dict.fromkeys(("restore", "end_boot"), record({"recovered": many(record({"run": anything}), MAX_RUNS)})),
    "install": record({"written": many(_PATH, 100)}),
    "uninstall": record({"removed": many(_PATH, 100)}),
    **dict.fromkeys(("submit", "status", "cancel", "finish", "ack"), _STATUS),
    **dict.fromkeys(("nudge", "purge"), record({})),
}
BYTES = ("read", "collect")  # base64, which is never stored as JSON


class RefusedError(HostError):
    """An invalid reply to `verb`. A repeated call would get the same reply."""

    verb = ""


def answer(subject: object, verb: str, raw: Any) -> Any:
    """Return the agent's reply to a verb, in the form of agents/wire/protocol.py. Raises RefusedError if it is not
    valid."""
    if verb == "facts":
        return facts(subject, raw)
    try:
        reply = _cleaned(verb, raw)
    except (ValueError, RecursionError) as error:
        raise _error(subject, verb, str(error)) from error
    if wrong := ANSWERS[verb](reply):
        raise _error(subject, verb, wrong)
    if verb in ("hello", "restore", "end_boot"):
        return {**reply, "recovered": recovered(reply["recovered"])}
    return reply


def _cleaned(verb: str, raw: Any) -> Any:
    if verb == "parameters":  # any account of the host may have started a cluster that reports them
        return _usable(raw, _QUERIED, MAX_QUERIED)
    return raw if verb in BYTES else storable(raw)


def recovered(statuses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a contact restored, shortened for the audit log: the first runs, with as many actions as have
    MAX_RECOVERED_BYTES together."""
    names = ("run", "state", "step", "outcome", "clean")
    short, room = list[dict[str, Any]](), MAX_RECOVERED_BYTES
    for status in statuses[:MAX_RECOVERED]:
        entry: dict[str, Any] = {**{name: _short(status.get(name)) for name in names}, "did": []}
        room -= len(canonical(entry))
        for line in _did(status):
            room -= len(canonical(line))
            if room >= 0:
                entry["did"].append(line)
        if room < 0 and short:
            break
        short.append(entry)
    return short


def _did(status: dict[str, Any]) -> list[str]:
    did = status.get("did")
    return [_short(line) for line in did[:MAX_DID]] if isinstance(did, list) else []


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) else plain(str(value)[:MAX_MESSAGE])


def facts(subject: object, raw: Any) -> dict[str, Any]:
    """Return facts that can be stored, shown and used for plans, without rows of OPEN_LISTS that break the rules.
    HostError names the section that is not valid."""
    open_lists = raw.keys() & OPEN_LISTS.keys() if isinstance(raw, dict) else ()
    usable = {name: _usable(raw[name], *OPEN_LISTS[name]) for name in open_lists}
    try:
        host_facts: dict[str, Any] = storable({**raw, **usable} if usable else raw)
    except (ValueError, RecursionError) as error:
        raise _error(subject, "facts", str(error)) from error
    if wrong := ANSWERS["facts"](host_facts):
        raise _error(subject, "facts", wrong)
    _check_use(subject, host_facts)
    return host_facts


def _usable(rows: Any, shape: Shape, most: int) -> Any:
    """Return the rows of a list without those that cannot be stored or do not have this shape, `most` at most. What
    is no list of objects is returned unchanged: it is refused."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return rows
    usable = []
    for row in rows:
        with suppress(ValueError, RecursionError):
            if not shape(cleaned := storable(row)):
                usable.append(cleaned)
        if len(usable) == most:
            break
    return usable


def _check_use(subject: object, host_facts: dict[str, Any]) -> None:
    """Raise HostError for facts that the pages of all hosts could not show."""
    try:
        for use in (topology.line, topology.sockets, topology.nodes_without_cpus, topology.numbering):
            use(host_facts)
        topology.caches(host_facts)
        topology.distances(host_facts)
        changes.lasting(host_facts)
        int(host_facts["memory"]["total_kb"])
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise _error(subject, "facts", f"{type(error).__name__}: {error}"[:300]) from error


def _error(subject: object, verb: str, message: str) -> RefusedError:
    hint = "the agent there may be damaged, or another program answers in its place"
    error = RefusedError(subject, f"sent an invalid answer: {verb}: {message}"[:500], hint=hint)
    error.verb = verb
    return error

"""Validate what an agent sends about a run: sizes, storable values, and the shapes of agents/wire/protocol.py.

A host may send anything. An invalid line is a lost event; an invalid manifest ends the run as failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from agents.wire.protocol import OUTCOMES, canonical, checksum
from apps.hosts.access.event_shapes import EVENTS
from apps.hosts.access.shapes import (
    FAILURE,
    MAX_INTEGER,
    WALL,
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
from common.errors import AgentError

HINT = "the host is quarantined: check its spool before you release it"
MAX_CONFLICTS = 1000
MAX_FILES = 10_000
MAX_CAUSE = 450  # of an exception
MAX_MESSAGE = 4000  # of the message or the hint of a failure
MAX_FAILURE_BYTES = MAX_MANIFEST_BYTES = 1 << 18  # of a manifest without its files
ARTEFACT_BYTES = 16 << 20  # a larger file stays on its host
MAX_FETCHED_BYTES = 256 << 20  # of all files of a run that the server fetches
# Events of a run. A busy host with 256 CPUs writes about 20 KiB/s, and 20 events a second.
BURST_BYTES, BYTES_PER_S = 64 << 20, 128 << 10
BURST_EVENTS, EVENTS_PER_S = 50_000, 200
MAX_DAMAGED = 1000
MIN_LINE_BYTES = 40  # shortest event; limits the number of objects in a batch of lines
_PATH = r"(?!\.{1,2}(/|$))[^/\x00-\x1f\\]+(/(?!\.{1,2}(/|$))[^/\x00-\x1f\\]+)*"
_FILE = record({"path": text(300, _PATH), "size": whole(), "sha256": text(64, "[0-9a-f]{64}")})
_CONFLICT = record(dict.fromkeys(("original", "ours", "found"), anything) | {"key": text(4096)})
_MANIFEST = record(
    {
        "outcome": word(*OUTCOMES),
        "clean": truth,
        "error": maybe(FAILURE),
        "last_seq": whole(0, MAX_INTEGER),
        "conflicts": many(_CONFLICT, MAX_CONFLICTS),
        "files": many(_FILE, MAX_FILES),
    },
    {"timings": maybe(table(maybe(number()), 100))},
)


class UnusableError(AgentError):
    """An agent sent something that cannot be used, and would send it again: the run ends."""


def unusable(agent: str, error: Exception) -> UnusableError:
    """Return the error for an exception while data of an agent was processed."""
    return UnusableError(plain(agent), f"its message cannot be processed: {error_text(error)}", hint=HINT)


def error_text(error: Exception) -> str:
    """Return type and text of an exception, whose text may quote the data, in a form that can be stored."""
    return plain(f"{type(error).__name__}: {error}"[:MAX_CAUSE])


def event(line: bytes) -> dict[str, Any] | None:
    """Return the fields of an Event; None for a line that is damaged or not valid."""
    try:
        fields = json.loads(line)
        if fields["crc"] != checksum(fields) or whole(0, MAX_INTEGER)(fields["seq"]) or WALL(fields["wall"]):
            return None
        at, data = datetime.fromtimestamp(fields["wall"], UTC), storable(fields["data"])
        if EVENTS[fields["kind"]](data):
            return None
        return {"seq": fields["seq"], "at": at, "kind": fields["kind"], "data": data}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def excess(size: int, events: int, seconds: float) -> str:
    """Return which quota a run exceeds that started `seconds` ago, with `size` bytes of events, the last of which
    has the number `events`; "" if none."""
    bytes_allowed = BURST_BYTES + BYTES_PER_S * max(0.0, seconds)
    events_allowed = BURST_EVENTS + EVENTS_PER_S * max(0.0, seconds)
    if size > bytes_allowed:
        return f"{size:,} bytes of events in {seconds:,.0f} s, at most {bytes_allowed:,.0f}"
    if events > events_allowed:
        return f"{events:,} events in {seconds:,.0f} s, at most {events_allowed:,.0f}"
    return ""


def manifest(sealed: bytes, agent: str) -> dict[str, Any]:
    """Parse manifest.json. UnusableError names the field that is not valid."""
    try:
        content: Any = storable(json.loads(sealed))
        problem = _MANIFEST(content) or _problem_of(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise UnusableError(agent, f"manifest.json is not usable: {problem}"[:500], hint=HINT)
    parsed: dict[str, Any] = content
    if parsed["error"]:
        parsed["error"] = failure(parsed["error"])
    return parsed


def _problem_of(content: dict[str, Any]) -> str:
    """What is wrong with the sizes of a manifest; "" if nothing is."""
    paths = [file["path"] for file in content["files"]]
    fetched = sum(file["size"] for file in content["files"] if file["size"] <= ARTEFACT_BYTES)
    size = len(canonical({name: value for name, value in content.items() if name not in ("files", "error")}))
    if fetched > MAX_FETCHED_BYTES:
        return f"files: {fetched:,} bytes to fetch, at most {MAX_FETCHED_BYTES:,}"
    if len(set(paths)) < len(paths):
        return "files: a path appears twice"
    return f"{size:,} bytes beside its files, at most {MAX_MANIFEST_BYTES:,}" if size > MAX_MANIFEST_BYTES else ""


def failure(error: dict[str, Any]) -> dict[str, Any]:
    """A Failure with its message and hint cut to what pages show, without its details if they are large."""
    short = dict(error)
    for name in short.keys() & {"message", "hint"}:
        short[name] = short[name][:MAX_MESSAGE]
    if len(canonical(short)) <= MAX_FAILURE_BYTES:
        return short
    return {name: short[name] for name in ("blame", "subject", "message", "hint") if name in short}

"""What an agent sends about a run, checked in one place: bounded, storable, as agents/wire/protocol.py has it.

A host may send anything. A line that breaks the rules is a lost event; a manifest that does ends the run as failed.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

from agents.wire.protocol import OUTCOMES, STATES, checksum
from common.errors import AgentError

HINT = "the host is quarantined: look at its spool before you release it"
KINDS = {
    *("state", "progress", "measuring", "measured", "sample", "log", "outcome", "command", "write", "proof"),
    *("dataset", "listening", "serving", "released"),
}
MAX_INTEGER = 2**31 - 1  # of PostgreSQL's integer
MAX_BIGINT = 2**63 - 1
MAX_WALL_S = 32_503_680_000  # the year 3000
MAX_STEP = 40
MAX_PATH = 300
MAX_CONFLICTS = 1000
MAX_FILES = 10_000
ARTEFACT_BYTES = 16 << 20  # a larger file stays on its host
MAX_FETCHED_BYTES = 256 << 20  # of all files of a run that the server fetches: it holds them in memory together
# Events of a run: a busy host with 256 CPUs writes about 20 KiB/s.
BURST_BYTES, BYTES_PER_S = 64 << 20, 128 << 10
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class UnusableError(AgentError):
    """What an agent sent cannot be worked with, and will be no better next time: the run ends."""


def unusable(agent: str, error: Exception) -> UnusableError:
    """For an exception while what an agent sent was processed."""
    return UnusableError(agent, f"what it sent cannot be processed: {type(error).__name__}: {error}"[:500], hint=HINT)


def event(line: bytes) -> dict[str, Any] | None:
    """The fields of an Event; None for a line that is damaged or breaks the rules."""
    try:
        record = json.loads(line)
        if record["crc"] != checksum(record) or not _is_event(record):
            return None
        at = datetime.fromtimestamp(record["wall"], UTC)
        return {"seq": record["seq"], "at": at, "kind": record["kind"], "data": storable(record["data"])}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _is_event(record: dict[str, Any]) -> bool:
    kind, data = record["kind"], record["data"]
    well_formed = _is_count(record["seq"], MAX_INTEGER) and 0 <= record["wall"] < MAX_WALL_S and isinstance(data, dict)
    if kind != "state":
        return well_formed and kind in KINDS
    return well_formed and data["state"] in STATES and len(data.get("step") or "") <= MAX_STEP


def excess(size: int, seconds: float) -> str:
    """What is wrong with `size` bytes of events from a run that started `seconds` ago; "" if nothing is."""
    most = BURST_BYTES + BYTES_PER_S * max(0.0, seconds)
    return f"{size:,} bytes of events in {seconds:,.0f} s, at most {most:,.0f}" if size > most else ""


def manifest(sealed: bytes, agent: str) -> dict[str, Any]:
    """manifest.json, storable. UnusableError that names the field which is not as it should be."""
    try:
        found: Any = storable(json.loads(sealed))
        problem = _problem_of(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise UnusableError(agent, f"manifest.json is not usable: {problem}", hint=HINT)
    return dict(found)


def _problem_of(found: dict[str, Any]) -> str:
    """What is wrong with a manifest; "" if nothing is."""
    paths = [file["path"] for file in found["files"]]
    fetched = sum(file["size"] for file in found["files"] if _is_count(file["size"], ARTEFACT_BYTES))
    checks = {
        f"outcome: {found['outcome']!r}": found["outcome"] in OUTCOMES,
        f"clean: {found['clean']!r}": isinstance(found["clean"], bool),
        f"error: {found['error']!r}": found["error"] is None or isinstance(found["error"], dict),
        f"last_seq: {found['last_seq']!r}": _is_count(found["last_seq"], MAX_INTEGER),
        f"conflicts: {len(found['conflicts'])}, at most {MAX_CONFLICTS}": len(found["conflicts"]) <= MAX_CONFLICTS,
        "conflicts: key, original, ours and found are needed": all(
            each.keys() >= {"key", "original", "ours", "found"} for each in found["conflicts"]
        ),
        f"files: {len(paths)}, at most {MAX_FILES}": len(paths) <= MAX_FILES,
        f"files: {fetched:,} bytes to fetch, at most {MAX_FETCHED_BYTES:,}": fetched <= MAX_FETCHED_BYTES,
        "files: a path appears twice": len(set(paths)) == len(paths),
        **{f"files: {file!r}"[:200]: _is_file(file) for file in found["files"]},
    }
    return next((name[:300] for name, is_fine in checks.items() if not is_fine), "")


def _is_file(file: dict[str, Any]) -> bool:
    is_named = isinstance(file["path"], str) and 0 < len(file["path"]) <= MAX_PATH
    return is_named and _is_count(file["size"], MAX_BIGINT) and bool(_SHA256.fullmatch(file["sha256"]))


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def storable(value: Any) -> Any:
    """The same JSON without what PostgreSQL's jsonb refuses: NUL and lone surrogates become U+FFFD, NaN and infinity
    become null."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [storable(each) for each in value]
    if isinstance(value, dict):
        return {storable(name): storable(each) for name, each in value.items()}
    return value

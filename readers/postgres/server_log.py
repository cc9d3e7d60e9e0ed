"""Parse checkpoints in a server's log, as PostgreSQL 10 to 18 writes them with log_checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO

from readers.text import INT, NUMBER, finished

# The prefix starts with %n (seconds since 1970) or %m. The offsets of time zones other than these are unknown.
_EPOCH = r"(?P<epoch>[0-9]{9,11}\.[0-9]{1,6})"
_CLOCK = r"(?P<clock>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?) (?:UTC|GMT|Etc/UTC)"
_LINE = re.compile(rf"(?:{_EPOCH}|{_CLOCK}) (?:.*? )?LOG:  (?:00000: )?(?P<kind>checkpoint|restartpoint) (?P<rest>.+)")
_WROTE = re.compile(rf"wrote (?P<buffers>{INT}) buffers \((?P<percent>{NUMBER})%\)")
_TIMES = {name: re.compile(rf"\b{name}=({NUMBER}) s\b") for name in ("write", "sync", "total")}
_DISTANCE = re.compile(rf"\bdistance=({INT}) kB\b")
LONGEST_REASON = 120
LONGEST_LINE = 10_000  # bytes; a line about a checkpoint has a few hundred


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, or a standby's restartpoint, in seconds since 1970. A time is None if its line is not in this
    log: the checkpoint started before it, or had not ended."""

    kind: str
    began: float | None
    ended: float | None
    reason: str
    buffers: int | None = None
    buffers_percent: float | None = None
    write_s: float | None = None
    sync_s: float | None = None
    total_s: float | None = None
    distance_kb: int | None = None


def parse_checkpoints(raw: bytes) -> tuple[Checkpoint, ...]:
    """Return the checkpoints in the order of their starts. Other lines and incomplete ones are ignored."""
    return tuple(_paired(raw))


def _paired(raw: bytes) -> Iterator[Checkpoint]:
    open_at: tuple[str, float, str] | None = None
    for line in BytesIO(finished(raw)):
        match = _LINE.match(line.decode(errors="backslashreplace")) if len(line) < LONGEST_LINE else None
        at = _seconds(match) if match else None
        if match is None or at is None:
            continue
        kind, (word, _, rest) = match["kind"], match["rest"].partition(": ")
        if word == "starting":
            if open_at:
                yield Checkpoint(open_at[0], open_at[1], None, open_at[2])
            open_at = (kind, at, rest.strip()[:LONGEST_REASON])
        elif word == "complete":
            began, reason = (open_at[1], open_at[2]) if open_at else (None, "")
            open_at = None
            yield _complete(kind, began, at, reason, rest)
    if open_at:
        yield Checkpoint(open_at[0], open_at[1], None, open_at[2])


def _seconds(match: re.Match[str]) -> float | None:
    if match["epoch"]:
        return float(match["epoch"])
    try:
        return datetime.fromisoformat(match["clock"]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _complete(kind: str, began: float | None, ended: float, reason: str, rest: str) -> Checkpoint:
    wrote, distance = _WROTE.match(rest), _DISTANCE.search(rest)
    times = {name: match for name, pattern in _TIMES.items() if (match := pattern.search(rest))}
    return Checkpoint(
        kind,
        began,
        ended,
        reason,
        buffers=int(wrote["buffers"]) if wrote else None,
        buffers_percent=float(wrote["percent"]) if wrote else None,
        write_s=float(times["write"][1]) if "write" in times else None,
        sync_s=float(times["sync"][1]) if "sync" in times else None,
        total_s=float(times["total"][1]) if "total" in times else None,
        distance_kb=int(distance[1]) if distance else None,
    )

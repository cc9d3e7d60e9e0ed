"""Type and size of every field of every event, as described in agents/wire/protocol.py. Pure.

Pages, results and decisions read events without further checks. A new kind of event needs its row here."""

from __future__ import annotations

from agents.wire.protocol import OUTCOMES, STATES
from apps.hosts.access.shapes import (
    FAILURE,
    STEP,
    UUID,
    WALL,
    Shape,
    anything,
    many,
    maybe,
    number,
    record,
    table,
    text,
    truth,
    whole,
    word,
)

MAX_COLUMNS = 4096  # of one sample: a host with 1,024 CPUs has some 2,000
NAME = text(80)
PATH = text(500)
SECONDS = number(0, 1e9)


def _pair(value: object) -> str:
    """Check [name of a step, seconds]."""
    fine = isinstance(value, list) and len(value) == 2 and not NAME(value[0]) and not SECONDS(value[1])
    return "" if fine else "not a pair of step and seconds"


_WHERE = {"address": text(253), "port": whole(1, 65_535), "database": text(63)}
_USED = {
    "means": word("pristine", "clone", "copy", "reinit", "keep", "prepared", "removed"),
    "reason": text(2000),
    "seconds": SECONDS,
    "wrote": maybe(truth),
}
_CHANGE = record({"name": text(63), "wanted": text(2000), "found": text(2000), "pending_restart": truth})
_RELATION = record({"bytes": maybe(number()), "rows": maybe(number())})

EVENTS: dict[str, Shape] = {
    "state": record({"state": word(*STATES)}, {"step": maybe(STEP)}),
    "progress": record(
        {"done": number(0, 2)}, {"step": maybe(STEP), "eta_s": maybe(number(-1e9, 1e12)), "note": maybe(text())}
    ),
    "sample": record(
        {
            "step": STEP,
            "source": text(20, "[a-z0-9_]+"),
            "t": number(-1e9, 1e9),
            "values": table(maybe(number()), MAX_COLUMNS, name=80),
        }
    ),
    "measuring": record({"step": STEP, "began": WALL}),
    "measured": record(
        {"step": STEP, "began": WALL, "ended": WALL}, {"costs": table(table(maybe(number()), 20), 100, name=40)}
    ),
    "command": record({"purpose": text(200), "argv": many(text(), 2000)}, {"env": maybe(table(text(), 500))}),
    "write": record({"setting": NAME, "key": text(4096), "original": anything, "wanted": anything, "found": anything}),
    "proof": record(
        {
            "setting": NAME,
            "phase": word("before", "during", "after", "restored"),
            "subject": text(4096),
            "wanted": anything,
            "found": anything,
            "ok": truth,
            "evidence": record({}),
        }
    ),
    "dataset": record(
        {
            "fingerprint": text(64),
            "home": PATH,
            "name": NAME,
            "kind": text(40),
            "options": record({}),
            "major": whole(0, 1000),
            "database": text(63),
            "state": word("preparing", "pristine", "dirty", "absent"),
            "size": maybe(whole()),
            "seconds": maybe(many(_pair, 200)),
            "made_by": maybe(UUID),
            "made_at": maybe(WALL),
            "relations": table(_RELATION, 100, name=300),
            "used": maybe(record(_USED, closed=True)),
        }
    ),
    "listening": record(_WHERE),
    "serving": record({}, _WHERE),
    "released": record({}),
    "waiting": record({"changes": many(_CHANGE, 200), "limit_s": SECONDS}),
    "log": record(
        {"message": text()},
        {"level": text(20), "steady": maybe(record({"reached": truth}))},
    ),
    "outcome": record({"outcome": word(*OUTCOMES)}, {"error": maybe(FAILURE)}),
}

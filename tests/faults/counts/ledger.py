"""The counts after each fault of the matrix. `FAULTS` names them, a test counts, and seen.json stores the counts.

A test injects a real fault, audits the runs that it hit (tests/faults/counts/audit.py), and records both:

    @often(20)
    def test_a_worker_killed_before_it_submits(times: int, ledger: Ledger) -> None:
        for _ in range(times):
            ...
        ledger.count(1, times, audit.of_campaign(campaign), left)

`count` fails the test when any count is not 0. If PROVING_FAULTS names a file, the counts are stored there:
`python -m tests.faults` and the lab's tests do that. No count of the table is typed by hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.faults.counts.findings import Found

SEEN = Path(__file__).with_name("seen.json")
KEEP_IN = "PROVING_FAULTS"
FAULTS = {
    1: "worker SIGKILL before submit",
    2: "worker SIGKILL after submit, before commit",
    3: "worker SIGKILL after commit, before ack",
    4: "pool child SIGKILL",
    5: "tick SIGSTOPped past the visibility timeout",
    6: "Redis restarted",
    7: "Redis FLUSHALL",
    8: "server PostgreSQL kill -9",
    9: "two beats",
    10: "SSH reset in mid-frame",
    11: "SSH blackholed for longer than the run",
    12: "host key changed: refused, no fallback",
    13: "noisy .bashrc",
    14: "agent SIGKILL at every journal boundary",
    15: "guard killed too",
    16: "power cut at every boundary",
    17: "planned restart resumes at the next step",
    18: "restart loop stopped by its budget",
    19: "cancel during a restart",
    20: "ENOSPC on the spool",
    21: "ENOSPC on PGDATA",
    22: "OOM kill of pgbench, postmaster, supervisor",
    23: "postmaster kill -9 with busy backends",
    24: "pid used again",
    25: "clock set by a day, forth and back",
    26: "huge pages fragmented",
    27: "an admin edits a sysctl during the run",
    28: "double-forked child at cancel",
    29: "two servers, one host",
    30: "corrupt tail of journal or events",
    31: "the host logs us out",
    32: "server upgraded during a run",
}


def often(times: int) -> pytest.MarkDecorator:
    """Run a test once, and as a slow test `times` times; it gets the number as `times`."""
    return pytest.mark.parametrize("times", [1, pytest.param(times, marks=pytest.mark.slow)])


@dataclass
class Row:
    """How often a fault was injected by one test, and what it did; `changed`: settings that were left changed."""

    times: int = 0
    runs: int = 0
    lost: int = 0
    duplicated: int = 0
    overlapping: int = 0
    changed: int = 0
    day: str = ""

    def add(self, times: int, audited: Found, changed: int) -> None:
        self.times += times
        self.changed += changed
        for name, value in asdict(audited).items():
            setattr(self, name, getattr(self, name) + value)
        self.day = date.today().isoformat()

    @property
    def harmless(self) -> bool:
        return not (self.lost or self.duplicated or self.overlapping or self.changed)


@dataclass
class Ledger:
    """Rows by fault and by test; `test` is the present one."""

    rows: dict[int, dict[str, Row]] = field(default_factory=dict)
    test: str = ""

    def count(self, fault: int, times: int, audited: Found, left: Collection[str] = ()) -> None:
        """`left`: names of what reads otherwise than before. AssertionError when anything is not 0."""
        assert fault in FAULTS, f"{fault} is none of {min(FAULTS)} to {max(FAULTS)}"
        row = Row()
        row.add(times, audited, len(left))
        self.rows.setdefault(fault, {}).setdefault(self.test, Row()).add(times, audited, len(left))
        assert row.harmless, (FAULTS[fault], row, sorted(left))

    def keep(self, file: Path = SEEN) -> None:
        """Write the new rows to the file; rows of other tests remain."""
        counts = load(file)
        for fault, by_test in self.rows.items():
            of_fault = counts.setdefault("faults", {}).setdefault(str(fault), {})
            of_fault.update({test: asdict(row) for test, row in by_test.items()})
        save(counts, file)


def load(file: Path = SEEN) -> dict[str, Any]:
    """{"faults": {number: {who: Row}}, "boundaries": ..., "soak": ..., "fire": ..., "searches": ...}; empty without a
    file."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def save(counts: dict[str, Any], file: Path = SEEN) -> None:
    file.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")


def wanted() -> Path | None:
    """Where this session shall keep what it counts."""
    return Path(os.environ[KEEP_IN]) if os.environ.get(KEEP_IN) else None

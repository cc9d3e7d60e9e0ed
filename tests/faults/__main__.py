"""python -m tests.faults: kills at every boundary of every setting on this machine, writes docs/faults.md. As root."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from tests.faults.cases import CASES, all_sysctls, sysctl
from tests.faults.matrix import Ground, Row, every_boundary, every_boundary_of_a_recovery, ground, some_boundaries

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
ATTEMPTS = 3
SAMPLE = 20
HEAD = """# What a killed agent leaves

Made by `python -m tests.faults` on {day}, Linux {release}, as root. Never edit it by hand.

The agent is killed with SIGKILL at each boundary of its journal: after the original is on disk and before the value is
written, after it is written and before it is marked, when PostgreSQL is forked but not yet on record, while it is being
put back, and so on. Then somebody makes contact with the host, and all that a run could leave changed is compared with
what was there before: sysctls, memory, processors, queues of disks, mounts, files, processes.
[The list](../tests/snapshot.py) also names what changes by itself.

| what | boundaries | kills | differences found |
|---|---|---|---|
"""
FOOT = """
`make test` does the same with a smaller sample of the last three, `make test ARGS="-m slow tests/faults"` with every
boundary of the last two. A row is taken again, with another wish, when something else on the machine changed a value
meanwhile: {again}. Power cuts are another matter: see [the lab](../CONTRIBUTING.md#the-lab).
"""


def looks(here: Ground) -> Iterator[Callable[[], Row]]:
    """One for each row; each derives its wish anew."""
    for name in CASES:
        yield lambda name=name: every_boundary(here, f"`{name}`", here.wishes(name))  # type: ignore[misc]
    names = all_sysctls()
    wish = sysctl(*names)
    yield lambda: some_boundaries(here, f"{len(names)} sysctls", {"sysctl": wish(here.device)}, SAMPLE)
    yield lambda: some_boundaries(here, "all settings at once", here.wishes(*CASES), SAMPLE)
    yield lambda: every_boundary_of_a_recovery(
        here, "all settings at once, and the recovery killed again", here.wishes(*CASES), step=5
    )


def take(look: Callable[[], Row]) -> tuple[Row, int]:
    """(what was seen at last, how often it was looked at)."""
    for attempt in range(1, ATTEMPTS + 1):
        row = look()
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
        if not row.differences or attempt == ATTEMPTS:
            return row, attempt
    raise AssertionError("there is at least one attempt")


def main() -> int:
    with ground() as here:
        seen = [take(look) for look in looks(here)]
    for row, _ in seen:
        for where, what in row.differences.items():
            sys.stdout.write(f"{row.name}: {where}: {what}\n")
    if any(row.differences for row, _ in seen):
        sys.stdout.write(f"{DOCUMENT} is left as it was\n")
        return 1
    table = "".join(f"| {row.name} | {row.boundaries} | {row.kills} | {len(row.differences)} |\n" for row, _ in seen)
    again = ", ".join(row.name for row, attempts in seen if attempts > 1) or "none this time"
    head = HEAD.format(day=date.today().isoformat(), release=platform.release().split("-")[0])
    DOCUMENT.write_text(head + table + FOOT.format(again=again))
    return 0


if __name__ == "__main__":
    sys.exit(main())

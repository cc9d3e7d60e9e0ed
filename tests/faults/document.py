"""docs/faults.md, made from what was counted (seen.json): the fault matrix, the long runs, the journal's boundaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.ledger import FAULTS, Row, load

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "faults.md"
HEAD = """# What a fault leaves

Made by `python -m tests.faults` and its parts from what they counted (`tests/faults/seen.json`). Never edit it by hand.

## The fault matrix

Each fault was injected for real, at seeded random moments or at every moment that counts. After each, what the server
has of every run is compared with what the agent sealed, line by line, the times at which runs were at work are compared
by the host's own clock, and what a run could leave changed is compared with what was there before. Days are those on
which the newest figures were taken; tests in `tests/lab` need virtual machines.

| | fault | injected | events lost | duplicated | overlapping runs | settings left changed | day | by |
|---|---|---|---|---|---|---|---|---|
"""
BOUNDARIES = """
## The journal's boundaries

Taken on {day}, Linux {release}, as root, by `python -m tests.faults boundaries`.

The agent is killed with SIGKILL at each boundary of its journal: after the original is on disk and before the value is
written, after it is written and before it is marked, when PostgreSQL is forked but not yet on record, while it is being
put back, and so on. Then somebody makes contact with the host, and all that a run could leave changed is compared with
what was there before: sysctls, memory, processors, queues of disks, mounts, files, processes.
[The list](../tests/snapshot.py) also names what changes by itself.

| what | boundaries | kills | differences found |
|---|---|---|---|
"""
FOOT = """
`make test-all` does the same with a smaller sample of the last three, `make test ARGS="-m slow tests/faults"` with
every boundary of the last two. A row is taken again, with another wish, when something else on the machine changed a
value meanwhile: {again}. Power cuts are another matter: see [the lab](../CONTRIBUTING.md#the-lab).
"""


def text(seen: dict[str, Any]) -> str:
    return HEAD + "".join(_faults(seen)) + _long_runs(seen) + _boundaries(seen["boundaries"])


def write() -> None:
    DOCUMENT.write_text(text(load()))


def _faults(seen: dict[str, Any]) -> Iterator[str]:
    """A line for each fault that was injected: the sum over who injected it."""
    for number, name in FAULTS.items():
        by_test = {test: Row(**row) for test, row in seen.get("faults", {}).get(str(number), {}).items()}
        if by_test:
            yield _line(number, name, by_test)


def _line(number: int, name: str, by_test: dict[str, Row]) -> str:
    counts = ("times", "lost", "duplicated", "overlapping", "changed")
    sums = [f"{sum(getattr(row, count) for row in by_test.values()):,}".replace(",", " ") for count in counts]
    tests = sorted({test.partition("[")[0] for test in by_test})
    by = ", ".join(f"[{_short(test)}](../{test.partition('::')[0]})" for test in tests)
    return f"| {number} | {name} | {' | '.join(sums)} | {max(row.day for row in by_test.values())} | {by} |\n"


def _short(test: str) -> str:
    """tests/lab/test_power.py::test_x is a test of the lab; tests/faults/soak.py is the soak."""
    file, _, name = test.partition("::")
    where = "lab: " if file.startswith("tests/lab") else ""
    return where + (name.removeprefix("test_").replace("_", " ") or Path(file).stem)


def _long_runs(seen: dict[str, Any]) -> str:
    told = [seen[name]["told"] for name in ("soak", "fire") if name in seen]
    return "\n## The long runs\n\n" + "\n".join(f"- {one}" for one in told) + "\n" if told else ""


def _boundaries(found: dict[str, Any]) -> str:
    rows = "".join(f"| {name} | {places} | {kills} | {wrong} |\n" for name, places, kills, wrong in found["rows"])
    head = BOUNDARIES.format(day=found["day"], release=found["release"])
    return head + rows + FOOT.format(again=", ".join(found["again"]) or "none this time")

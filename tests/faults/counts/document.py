"""docs/background/faults.md from seen.json: the fault matrix, the long runs, the boundaries of the journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.counts.ledger import FAULTS, Row, load

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "background" / "faults.md"
HEAD = """# Fault tests

`python -m tests.faults` and its parts generate this page from their counts (`tests/faults/counts/seen.json`). Do not
edit it by hand.

## The fault matrix

Each fault was injected for real, at seeded random moments or at every relevant moment. After each fault:

- the server's data of every run are compared with the data that the agent sealed, line by line;
- the times of active runs are compared, by the host's own clock;
- everything that a run could leave changed is compared with its state before.

The day is that of the newest figures. Tests in `tests/lab` need virtual machines.

| | fault | injected | events lost | duplicated | overlapping runs | settings left changed | day | by |
|---|---|---|---|---|---|---|---|---|
"""
BOUNDARIES = """
## The journal's boundaries

Measured on {day}, Linux {release}, as root, by `python -m tests.faults boundaries`.

The agent is killed with SIGKILL at each boundary of its journal. Some of these boundaries are:

- after the original is on disk and before the value is written;
- after the value is written and before it is marked;
- when PostgreSQL is forked but not yet on record;
- during the restore.

After the next contact with the host, everything that a run could leave changed is compared with its state before.
That includes sysctls, memory, processors, disk queues, mounts, files and processes.
[The list](../../tests/servers/snapshot.py) also names values that change by themselves.

| what | boundaries | kills | differences found |
|---|---|---|---|
"""
FOOT = """
`make test-all` repeats this with a smaller sample of the last three rows, `make test ARGS="-m slow tests/faults"`
with every boundary of the last two. If another program on the machine changed a value meanwhile, the row is measured
again with another value: {again}. For power failures, see [the lab](../../CONTRIBUTING.md#the-lab).
"""


def text(counts: dict[str, Any]) -> str:
    return HEAD + "".join(_faults(counts)) + _long_runs(counts) + _boundaries(counts["boundaries"])


def write() -> None:
    DOCUMENT.write_text(text(load()))


def _faults(counts: dict[str, Any]) -> Iterator[str]:
    """One line for each fault: the sum over all tests and programs that injected it."""
    for number, name in FAULTS.items():
        by_test = {test: Row(**row) for test, row in counts.get("faults", {}).get(str(number), {}).items()}
        if by_test:
            yield _line(number, name, by_test)


def _line(number: int, name: str, by_test: dict[str, Row]) -> str:
    counts = ("times", "lost", "duplicated", "overlapping", "changed")
    sums = [f"{sum(getattr(row, count) for row in by_test.values()):,}".replace(",", " ") for count in counts]
    tests = sorted({test.partition("[")[0] for test in by_test})
    by = ", ".join(f"[{_short(test)}](../../{test.partition('::')[0]})" for test in tests)
    return f"| {number} | {name} | {' | '.join(sums)} | {max(row.day for row in by_test.values())} | {by} |\n"


def _short(test: str) -> str:
    """tests/lab/restarts/test_power.py::test_x is a test of the lab; tests/faults/soak.py is the soak."""
    file, _, name = test.partition("::")
    where = "lab: " if file.startswith("tests/lab") else ""
    return where + (name.removeprefix("test_").replace("_", " ") or Path(file).stem)


def _long_runs(counts: dict[str, Any]) -> str:
    sentences = [counts[name]["sentence"] for name in ("soak", "fire", "searches") if name in counts]
    return "\n## The long runs\n\n" + "\n".join(f"- {sentence}" for sentence in sentences) + "\n" if sentences else ""


def _boundaries(boundaries: dict[str, Any]) -> str:
    rows = "".join(f"| {name} | {places} | {kills} | {wrong} |\n" for name, places, kills, wrong in boundaries["rows"])
    head = BOUNDARIES.format(day=boundaries["day"], release=boundaries["release"])
    return head + rows + FOOT.format(again=", ".join(boundaries["again"]) or "none this time")

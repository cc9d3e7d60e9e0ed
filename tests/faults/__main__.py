"""python -m tests.faults [boundaries|matrix|document]...: counts again, then writes docs/background/faults.md. As root.

boundaries: kills at every boundary of every setting of this machine. matrix: the tests of tests/faults, each fault many
times. document: only writes. Without an argument, all three. The soak and the campaign under fire have commands of
their own: python -m tests.faults.soak, python -m tests.faults.fire.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date

from tests.faults.counts import document
from tests.faults.counts.ledger import KEEP_IN, SEEN, load, save
from tests.faults.injection.cases import CASES, all_sysctls, sysctl
from tests.faults.injection.matrix import (
    Ground,
    Row,
    every_boundary,
    every_boundary_of_a_recovery,
    ground,
    some_boundaries,
)
from tests.session import needs

ATTEMPTS = 3
SAMPLE = 20


def boundary_checks(here: Ground) -> Iterator[Callable[[], Row]]:
    """One check for each row of the document; each derives its settings again."""
    for name in CASES:
        yield lambda name=name: every_boundary(here, f"`{name}`", here.wishes(name))  # type: ignore[misc]
    names = all_sysctls()
    wish = sysctl(*names)
    yield lambda: some_boundaries(here, f"{len(names)} sysctls", {"sysctl": wish(here.device)}, SAMPLE)
    yield lambda: some_boundaries(here, "all settings at once", here.wishes(*CASES), SAMPLE)
    yield lambda: every_boundary_of_a_recovery(
        here, "all settings at once, and the recovery killed again", here.wishes(*CASES), step=5
    )


def take(check: Callable[[], Row]) -> tuple[Row, int]:
    """(the row of the last attempt, the number of attempts)."""
    for attempt in range(1, ATTEMPTS + 1):
        row = check()
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
        if not row.differences or attempt == ATTEMPTS:
            return row, attempt
    raise AssertionError("there is at least one attempt")


def boundaries() -> bool:
    """Whether no setting is left changed; only then the counts are stored."""
    with ground() as here:
        taken = [take(check) for check in boundary_checks(here)]
    for row, _ in taken:
        for where, what in row.differences.items():
            sys.stdout.write(f"{row.name}: {where}: {what}\n")
    if any(row.differences for row, _ in taken):
        sys.stdout.write(f"{SEEN} is left as it was\n")
        return False
    counts = {
        "day": date.today().isoformat(),
        "release": platform.release().split("-")[0],
        "again": [row.name for row, attempts in taken if attempts > 1],
        "rows": [[row.name, row.boundaries, row.kills, len(row.differences)] for row, _ in taken],
    }
    save({**load(), "boundaries": counts})
    return True


def matrix() -> bool:
    """Run every test with counts at its full number of repetitions. `make test-lab` runs those of the lab."""
    counts = load()
    for by_test in counts.get("faults", {}).values():
        for test in [test for test in by_test if test.startswith("tests/faults/test_")]:
            del by_test[test]
    save(counts)
    argv = [sys.executable, "-m", "embedded", "run", "--", sys.executable, "-m", "pytest", "-q", "tests/faults"]
    environment = {**os.environ, KEEP_IN: str(SEEN)}
    return subprocess.run([*argv, "-m", "not lab and not e2e"], env=environment, check=False).returncode == 0


PARTS = {"boundaries": boundaries, "matrix": matrix, "document": lambda: True}


def main(*argv: str) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Counts faults for docs/background/faults.md."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; without any: all of them")
    chosen = parser.parse_args(argv).parts
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}: choose from {', '.join(PARTS)}")
    parts = chosen or list(PARTS)
    if parts != ["document"]:
        needs.demand_root(parser)
    done = [PARTS[part]() for part in parts]
    document.write()
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

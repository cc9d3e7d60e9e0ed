"""What the output of `make test` says: its summary, and what the machine lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass

SUMMARY = re.compile(r"^(?:=+ )?(\d+ (?:passed|failed|skipped|deselected|errors?)\b.* in [\d.]+s\b.*?)(?: =+)?$", re.M)
# The section that tests/session/needs.py writes.
MISSING = re.compile(r"this machine lacks =+\n((?:  .+\n)+)")
FAILED = re.compile(r"^(?:FAILED|ERROR) .+$", re.M)
UNDER_CI = "CI=true: a test that cannot run fails"


@dataclass(frozen=True)
class Outcome:
    """How `make test` ended. `summary` is pytest's own last line, "" without one; `failed` has the tests that failed
    although nothing that they need is missing."""

    code: int
    seconds: float
    summary: str
    missing: tuple[str, ...]
    failed: tuple[str, ...]

    def is_expected(self, *, is_ci: bool) -> bool:
        """Whether all tests passed or were skipped; under CI, whether missing things alone made it fail."""
        if not self.summary or self.failed:
            return False
        return bool(self.code and self.missing) if is_ci else self.code == 0

    def __str__(self) -> str:
        return f"exit code {self.code} after {self.seconds:.0f} s, {self.summary or 'without a summary of pytest'}"


def read(code: int, seconds: float, output: str) -> Outcome:
    summaries, sections = SUMMARY.findall(output), MISSING.findall(output)
    missing = sections[-1].splitlines() if sections else ()
    failed = (line for line in FAILED.findall(output) if UNDER_CI not in line)
    summary = summaries[-1] if summaries else ""
    return Outcome(code, seconds, summary, tuple(line.strip() for line in missing), tuple(failed))

"""Checks of measured figures, printed with their result."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Checks:
    """Checks of measured figures. Each prints one line."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, holds: bool, promise: str) -> None:
        print(f"{'ok' if holds else 'FAILED':7}{promise}", flush=True)
        if holds:
            self.passed += 1
        else:
            self.failed.append(promise)

    @property
    def summary(self) -> str:
        return f"{self.passed} checks passed, {len(self.failed)} failed"

"""Hosts as trees of files: /proc and /sys of machines that are not available here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.host import cpulist
from agents.host.system import Finished
from tests.agents.fakes import FakeSystem

HOSTS = Path(__file__).parent / "cases/hosts"


class RecordedHost(FakeSystem):
    """A host of cases/hosts: only `files` and `links` exist, and `programs` print their versions."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(case["files"], links=case.get("links"))
        self.case, self.programs, self.asked = case, dict(case.get("programs", {})), list[str]()

    def allowed_cpus(self) -> list[int]:
        return cpulist.parse(self.case["allowed"])

    def euid(self) -> int:
        return int(self.case.get("euid", 0))

    def identity(self, program: str) -> dict[str, Any] | None:
        return {}

    def which(self, tool: str) -> str:
        return next((path for path in self.programs if path.endswith(f"/bin/{tool}") and "postgres" not in path), "")

    def run(self, argv: Sequence[str], **_: Any) -> Finished:  # type: ignore[override]
        self.asked.append(argv[0])
        return Finished(list(argv), 0, self.programs.get(argv[0], ""), "")


def load(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((HOSTS / f"{name}.json").read_text())
    return case


def names() -> list[str]:
    return sorted(path.stem for path in HOSTS.glob("*.json"))

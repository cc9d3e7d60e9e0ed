"""Runs tools without a run, to check scripts with the programs of this host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from ..host.system import Finished, System
from ..records.processes import environment

LIMIT_S = 10.0


@dataclass(frozen=True)
class Bench:
    """The tools of one host: a target's own before those on the PATH."""

    system: System
    bin_dir: str

    def tool(self, name: str) -> str:
        return self.system.tool(name, self.bin_dir)

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> Finished:
        return self.system.run_found(argv, env=environment("", env), limit_s=LIMIT_S)

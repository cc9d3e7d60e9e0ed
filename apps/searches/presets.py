"""Named spaces, one file each in spaces/, scaled to the memory of a host. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apps.hosts.facts.topology import memory_kb
from apps.tuning.parameters import amount

FOLDER = Path(__file__).with_name("spaces")
MEMORY = re.compile(r"\{memory(?:/(\d+))?\}")
KB_PER_MB = 1024


@dataclass(frozen=True)
class Preset:
    """A named space. `lines` are those of space.read, with {memory/4} for a quarter of the host's memory."""

    name: str
    title: str
    about: str
    lines: tuple[str, ...]

    def scaled(self, facts: Mapping[str, Any]) -> list[str]:
        """Its lines for a host, in whole MB."""

        def share(match: re.Match[str]) -> str:
            return amount(f"{memory_kb(facts) // KB_PER_MB // int(match[1] or 1)}", "MB")

        return [MEMORY.sub(share, line) for line in self.lines]


@cache
def presets() -> dict[str, Preset]:
    """Name -> preset, in the order of the names."""
    read = (yaml.safe_load(file.read_text()) for file in sorted(FOLDER.glob("*.yaml")))
    return {
        space["name"]: Preset(space["name"], space["title"], space["about"], tuple(space["space"])) for space in read
    }


def expanded(lines: Iterable[str], facts: Mapping[str, Any]) -> list[str]:
    """The lines, with the lines of a named space in place of its name."""
    expansion: list[str] = []
    for line in lines:
        preset = presets().get(line.strip())
        expansion += preset.scaled(facts) if preset else [line]
    return expansion

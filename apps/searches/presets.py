"""Spaces by name, one file each in spaces/, scaled to the memory of a host. Pure."""

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
MIB = 1024


@dataclass(frozen=True)
class Preset:
    """`lines` as space.read wants them, with {memory/4} in place of a quarter of the host's memory."""

    name: str
    title: str
    about: str
    lines: tuple[str, ...]

    def scaled(self, facts: Mapping[str, Any]) -> list[str]:
        """Its lines for a host, in whole MB."""

        def share(found: re.Match[str]) -> str:
            return amount(f"{memory_kb(facts) // MIB // int(found[1] or 1)}", "MB")

        return [MEMORY.sub(share, line) for line in self.lines]


@cache
def presets() -> dict[str, Preset]:
    """By name, in the order of their names."""
    read = (yaml.safe_load(file.read_text()) for file in sorted(FOLDER.glob("*.yaml")))
    return {each["name"]: Preset(each["name"], each["title"], each["about"], tuple(each["space"])) for each in read}


def expanded(lines: Iterable[str], facts: Mapping[str, Any]) -> list[str]:
    """The lines, with those of a space in place of its name."""
    found: list[str] = []
    for line in lines:
        preset = presets().get(line.strip())
        found += preset.scaled(facts) if preset else [line]
    return found

"""Transparent huge pages: what the kernel does for anonymous memory by itself."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..facts import THP
from .base import Facts, Plan, Setting, Write


class TransparentHugePages(Setting):
    name = "transparent_huge_pages"
    title = "Transparent huge pages"
    help = "The kernel's enabled and defrag choices for transparent huge pages (restored afterwards)"
    risk = "changes memory management for every process while the run lasts"
    level = "root"
    schema = {
        "type": "object",
        "title": "Transparent huge pages",
        "properties": {
            "enabled": {"type": "string", "enum": ["always", "madvise", "never"], "title": "enabled"},
            "defrag": {
                "type": "string",
                "enum": ["always", "defer", "defer+madvise", "madvise", "never"],
                "title": "defrag",
            },
        },
        "additionalProperties": False,
    }

    def plan(self, facts: Facts, wanted: Any) -> Plan:
        choices = facts["transparent_huge_pages"].get("choices", {})
        for name, value in wanted.items():
            if value not in choices.get(name, []):
                accepted = ", ".join(choices.get(name, [])) or "nothing; this kernel has no transparent huge pages"
                raise Unplannable(f"{self.name}.{name}", value, accepted)
        return Plan(writes=[Write(f"{THP}/{name}", value) for name, value in wanted.items()])

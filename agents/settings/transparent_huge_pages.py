"""Transparent huge pages: what the kernel does for anonymous memory and shared memory by itself."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..facts.memory import THP
from ..host.system import System
from .base import Facts, Plan, Setting, Write, current

# The kernel keeps another amount of memory free when it has huge pages to make.
MIN_FREE = "/proc/sys/vm/min_free_kbytes"
_FILES = ("enabled", "defrag", "shmem_enabled")
_MS = {"type": "integer", "minimum": 0, "maximum": 3600000}


class TransparentHugePages(Setting):
    name = "transparent_huge_pages"
    title = "Transparent huge pages"
    help = "The kernel's choices for transparent huge pages, and the pace of khugepaged (restored afterwards)"
    unit = "see each field"
    risk = "changes memory management for all processes during the run"
    level = "root"
    schema = {
        "type": "object",
        "title": "Transparent huge pages",
        "properties": {
            "enabled": {
                "type": "string",
                "enum": ["always", "madvise", "never"],
                "title": "enabled",
                "description": "For private memory of processes: PostgreSQL's backends, not its shared memory",
            },
            "defrag": {
                "type": "string",
                "enum": ["always", "defer", "defer+madvise", "madvise", "never"],
                "title": "defrag",
                "description": "Whether a process waits for memory compaction",
            },
            "shmem_enabled": {
                "type": "string",
                "enum": ["always", "within_size", "advise", "never", "deny", "force"],
                "title": "shmem_enabled",
                "description": "For shared memory, mainly that of PostgreSQL",
            },
            "khugepaged": {
                "type": "object",
                "title": "khugepaged",
                "properties": {
                    "defrag": {
                        "type": "boolean",
                        "title": "khugepaged/defrag",
                        "description": "Whether it compacts memory",
                    },
                    "pages_to_scan": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 10000000,
                        "title": "khugepaged/pages_to_scan (pages)",
                        "description": "Number of pages scanned before it sleeps",
                    },
                    "scan_sleep_millisecs": {
                        **_MS,
                        "title": "khugepaged/scan_sleep_millisecs (ms)",
                        "description": "Time between two scans",
                    },
                    "alloc_sleep_millisecs": {
                        **_MS,
                        "title": "khugepaged/alloc_sleep_millisecs (ms)",
                        "description": "Time to sleep when no huge page was available",
                    },
                    "max_ptes_none": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": 511,
                        "title": "khugepaged/max_ptes_none (pages)",
                        "description": "Maximum of unused small pages in one huge page",
                    },
                },
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    }

    def discover(self, system: System) -> dict[str, Any]:
        modes = {name: current(system, f"{THP}/{name}") for name in _FILES if system.exists(f"{THP}/{name}")}
        knobs = self.schema["properties"]["khugepaged"]["properties"]
        texts = {name: system.text(f"{THP}/khugepaged/{name}") for name in knobs}
        knob_values: dict[str, Any] = {name: int(text) for name, text in texts.items() if text.isdigit()}
        if "defrag" in knob_values:
            knob_values["defrag"] = bool(knob_values["defrag"])
        return {**modes, **({"khugepaged": knob_values} if knob_values else {})}

    def plan(self, facts: Facts, requested: Any) -> Plan:
        known = facts["transparent_huge_pages"]
        knobs = requested.get("khugepaged", {})
        modes = {name: requested[name] for name in _FILES if name in requested}
        for name, value in modes.items():
            _check_word(known.get("choices", {}).get(name, []), name, value)
        for name, value in knobs.items():
            if name not in known.get("khugepaged", {}):
                raise Unplannable(f"{self.name}.khugepaged.{name}", value, "nothing; this kernel does not have it")
        resets = {"enabled": (MIN_FREE,), "shmem_enabled": (MIN_FREE,)}
        writes = [Write(f"{THP}/{name}", word, resets=resets.get(name, ())) for name, word in modes.items()]
        return Plan(writes=[*writes, *(Write(f"{THP}/khugepaged/{name}", str(int(knobs[name]))) for name in knobs)])


def _check_word(choices: list[str], name: str, value: str) -> None:
    if value not in choices:
        nothing = "nothing; this kernel has no transparent huge pages"
        raise Unplannable(f"transparent_huge_pages.{name}", value, ", ".join(choices) or nothing)

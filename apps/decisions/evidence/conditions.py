"""What a decision stands on, of a host's facts: kernel, PostgreSQL, hardware; and whether that still is so. Pure.

A team says for which versions it decides, as ranges: inside of one a change of version needs no new look. Without a
range a decision holds for what was measured, up to releases that only mend: PostgreSQL's minor ones, and those of a
kernel below its second number (https://www.postgresql.org/support/versioning/, kernel.org's stable branches).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NUMBERS = re.compile(r"\d+(?:\.\d+)*")
KERNEL_PARTS, POSTGRESQL_PARTS = 2, 1
# Firmware keeps some memory to itself, and not always the same.
ALIKE_WITHIN = 0.01
KB_PER_GIB = 1024 * 1024


def version(text: str) -> tuple[int, ...]:
    """ "6.1.0-28-amd64" -> (6, 1, 0); () where it begins with no number."""
    match = NUMBERS.match(text)
    return tuple(map(int, match[0].split("."))) if match else ()


@dataclass(frozen=True)
class Range:
    """Versions from `low` to `high`, both included, each as exact as it is written: up to 6.1 has 6.1.9. "" is open."""

    low: str = ""
    high: str = ""

    def __bool__(self) -> bool:
        return bool(self.low or self.high)

    def __str__(self) -> str:
        if self.low and self.high:
            return self.low if self.low == self.high else f"{self.low} to {self.high}"
        return f"{self.low} on" if self.low else f"up to {self.high}"

    def holds(self, text: str) -> bool:
        number, low, high = version(text), version(self.low), version(self.high)
        return bool(number) and number[: len(low)] >= low and (not high or number[: len(high)] <= high)

    @property
    def wrong(self) -> str:
        """What makes it no range; "" where nothing does."""
        for end in (self.low, self.high):
            if end and not NUMBERS.fullmatch(end):
                return f"{end!r} is not a version"
        low, high = version(self.low), version(self.high)
        return f"{self.low} is after {self.high}" if high and low[: len(high)] > high else ""


@dataclass(frozen=True)
class Conditions:
    """Facts of a host that results hang on. `postgresql`: of the installation that its runs take; "" where none is."""

    kernel: str = ""
    postgresql: str = ""
    cpu: str = ""
    cpus: int = 0
    nodes: int = 0
    memory_kb: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Reason:
    """Why a decision may not hold on a host any more."""

    fact: str
    before: Any
    after: Any
    words: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def conditions(facts: Mapping[str, Any], postgresql: str) -> Conditions:
    """Of a host's facts, and of the PostgreSQL among them that counts."""
    cpus = facts.get("cpus", {})
    return Conditions(
        kernel=str(facts.get("kernel", {}).get("release", "")),
        postgresql=postgresql,
        cpu=str(cpus.get("model", "")),
        cpus=int(cpus.get("threads", 0)),
        nodes=len(facts.get("numa", {}).get("nodes", [])),
        memory_kb=int(facts.get("memory", {}).get("total_kb", 0)),
    )


def read(stored: Mapping[str, Any]) -> Conditions:
    """As as_dict() wrote them."""
    return Conditions(**stored)


def stale(stood: Conditions, now: Conditions, kernel: Range, postgresql: Range) -> list[Reason]:
    """Why what held under the one may not hold under the other; [] where it does."""
    return [
        *_of_version("kernel", "Linux", stood.kernel, now.kernel, kernel, KERNEL_PARTS),
        *_of_version("postgresql", "PostgreSQL", stood.postgresql, now.postgresql, postgresql, POSTGRESQL_PARTS),
        *_of_hardware(stood, now),
    ]


def _of_version(fact: str, what: str, stood: str, now: str, allowed: Range, parts: int) -> list[Reason]:
    if stood and not now:
        return [Reason(fact, stood, now, f"{what} {stood} is no longer present.")]
    if allowed:
        sentence = f"{what} {now} is outside {allowed}, the range of the decision."
        return [] if allowed.holds(now) or not now else [Reason(fact, stood, now, sentence)]
    if version(stood)[:parts] == version(now)[:parts]:
        return []
    return [Reason(fact, stood, now, f"{what} changed from {stood or 'none'} to {now}.")]


def _of_hardware(stood: Conditions, now: Conditions) -> list[Reason]:
    reasons = []
    if stood.cpu != now.cpu:
        reasons.append(Reason("cpu", stood.cpu, now.cpu, f"The processor changed from {stood.cpu} to {now.cpu}."))
    for fact, what in (("cpus", "CPUs"), ("nodes", "NUMA nodes")):
        before, after = getattr(stood, fact), getattr(now, fact)
        if before != after:
            reasons.append(Reason(fact, before, after, f"{what} changed from {before} to {after}."))
    before, after = stood.memory_kb, now.memory_kb
    if abs(before - after) > ALIKE_WITHIN * max(before, after):
        sentence = f"Memory changed from {before / KB_PER_GIB:.1f} GiB to {after / KB_PER_GIB:.1f} GiB."
        reasons.append(Reason("memory_kb", before, after, sentence))
    return reasons

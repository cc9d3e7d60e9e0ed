"""The facts of a host on which a decision depends: kernel, PostgreSQL, hardware; and whether they still apply. Pure.

A team may limit a decision to ranges of versions; a version change within a range is no reason for a review. Without
a range, a decision holds for the measured versions and their bug-fix releases: minor releases of PostgreSQL, and
kernels with the same first two numbers (https://www.postgresql.org/support/versioning/, kernel.org's stable
branches)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NUMBERS = re.compile(r"\d+(?:\.\d+)*")
KERNEL_PARTS, POSTGRESQL_PARTS = 2, 1
# Firmware reserves some memory, and not always the same amount.
MEMORY_TOLERANCE = 0.01
KB_PER_GIB = 1024 * 1024


def version(text: str) -> tuple[int, ...]:
    """Parse a version: "6.1.0-28-amd64" -> (6, 1, 0); () if it does not start with a number."""
    match = NUMBERS.match(text)
    return tuple(map(int, match[0].split("."))) if match else ()


@dataclass(frozen=True)
class Range:
    """Versions from `low` to `high`, both included. A short version includes longer ones: "6.1" as `high` includes
    6.1.9. "" is open."""

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
        """Why the range is not valid; "" if it is."""
        for end in (self.low, self.high):
            if end and not NUMBERS.fullmatch(end):
                return f"{end!r} is not a version"
        low, high = version(self.low), version(self.high)
        return f"{self.low} is after {self.high}" if high and low[: len(high)] > high else ""


@dataclass(frozen=True)
class Conditions:
    """Facts of a host on which results depend. `postgresql`: the version of the installation that its runs use; ""
    if none."""

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
    """A reason why a decision may no longer hold on a host."""

    fact: str
    before: Any
    after: Any
    words: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def conditions(facts: Mapping[str, Any], postgresql: str) -> Conditions:
    """Return the conditions from a host's facts and the PostgreSQL that counts."""
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
    """Restore conditions from the output of as_dict()."""
    return Conditions(**stored)


def stale_reasons(stood: Conditions, now: Conditions, kernel: Range, postgresql: Range) -> list[Reason]:
    """Return the reasons why a result under `stood` may not hold under `now`; [] if it does."""
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
    if abs(before - after) > MEMORY_TOLERANCE * max(before, after):
        sentence = f"Memory changed from {before / KB_PER_GIB:.1f} GiB to {after / KB_PER_GIB:.1f} GiB."
        reasons.append(Reason("memory_kb", before, after, sentence))
    return reasons

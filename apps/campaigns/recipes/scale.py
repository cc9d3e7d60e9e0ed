"""Numbers in a recipe's options that depend on the host. Pure: from its facts to the number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from apps.campaigns.design import data
from apps.hosts.facts import topology
from apps.hosts.facts.topology import file_system, memory_kb

Facts = Mapping[str, Any]

MANY_CPUS = 16  # from this number of CPUs on, a host gets the full load of a production host
MOST_JOBS = 64
MIB = 1024
SMALLEST_MIB, LARGEST_MIB = 64, 10 * 1024
LARGEST_TABLE_KB = 64 * 1024 * 1024  # created in about a quarter of an hour; larger ones are data sets of their own
# Gaussian draws use a small part of a range. The part in use exceeds memory only if the range is far larger.
DATA_TO_MEMORY = 4.0


def parse_cpus(cpulist: str) -> list[int]:
    """Parse a list of CPUs: "0-2,5" -> [0, 1, 2, 5]."""
    cpus: list[int] = []
    for part in cpulist.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def cpus(facts: Facts) -> int:
    return len(parse_cpus(facts["cpus"]["allowed"]))


def _size(facts: Facts) -> str:
    """Return a twentieth of the free space of the fullest directory, within limits."""
    mounts = [file_system(facts, path) for path in facts["directories"]]
    free = [mount["free_kb"] // MIB // 20 for mount in mounts if mount and mount.get("free_kb")]
    return f"{max(SMALLEST_MIB, min([LARGEST_MIB, *free]))}m"


def free_kb(facts: Facts) -> int | None:
    """Return the free space of the host's cluster directory; None if the facts do not include it."""
    return topology.free_kb(facts, facts["directories"][0])


def spelled(kb: int) -> str:
    """Return a size as PostgreSQL writes it: 2048 -> "2MB"."""
    for unit, size in (("GB", 1024 * 1024), ("MB", 1024)):
        if kb % size == 0:
            return f"{kb // size}{unit}"
    return f"{kb}kB"


def rows_that_fit(facts: Facts) -> float:
    """Return how many rows of pgbench_accounts, with their index, fit into memory."""
    return memory_kb(facts) * 1024 / data.bytes_per_row()


def _four_times_memory(facts: Facts) -> int:
    return math.ceil(DATA_TO_MEMORY * rows_that_fit(facts) / data.ROWS_PER_SCALE)


def _table_of_memory(facts: Facts) -> int:
    """Return the scale at which the largest table is as large as the memory: at most a third of the free space,
    within limits."""
    room = free_kb(facts)
    most_kb = min([memory_kb(facts), LARGEST_TABLE_KB, *([] if room is None else [room // 3])])
    return max(1, int(most_kb * 1024 / data.table_bytes(1)))


# Names of numbers that an option may use.
NUMBERS: dict[str, Callable[[Facts], int]] = {
    "cpus": cpus,
    "four_times_memory": _four_times_memory,
    "table_of_memory": _table_of_memory,
}
# Placeholders in a fio job file: on a known host, and without a host.
PLACEHOLDERS: dict[str, tuple[Callable[[Facts], Any], Any]] = {
    "{jobs}": (lambda facts: min(MOST_JOBS, cpus(facts)), 64),
    "{size}": (_size, "10240m"),
    "{seconds}": (lambda facts: 180 if cpus(facts) >= MANY_CPUS else 30, 180),
    "{ramp}": (lambda facts: 6 if cpus(facts) >= MANY_CPUS else 2, 6),
}


def scaled(value: Any, facts: Facts) -> Any:
    """Return the value of an option on a host with these facts; {} for no host."""
    if isinstance(value, str) and value in NUMBERS:
        return NUMBERS[value](facts) if facts else value
    if isinstance(value, str):
        for word, (of_facts, usual) in PLACEHOLDERS.items():
            if word in value:
                value = value.replace(word, str(of_facts(facts) if facts else usual))
    return value

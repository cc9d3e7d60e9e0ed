"""What stands in a recipe's options in place of a number that follows the host. Pure: its facts in, the number out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from apps.campaigns.design import data
from apps.hosts.facts import topology
from apps.hosts.facts.topology import file_system, memory_kb

Facts = Mapping[str, Any]

MANY_CPUS = 16  # from here on a host is asked as long as a production host deserves
MOST_JOBS = 64
MIB = 1024
SMALLEST_MIB, LARGEST_MIB = 64, 10 * 1024
LARGEST_TABLE_KB = 64 * 1024 * 1024  # made in a quarter of an hour or so; a larger one is a data set of its own
# Draws from a Gaussian leave most of a range alone: what is in use outgrows memory only where the range does by far.
DATA_TO_MEMORY = 4.0


def parse_cpus(cpulist: str) -> list[int]:
    """ "0-2,5" -> [0, 1, 2, 5]."""
    cpus: list[int] = []
    for part in cpulist.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def cpus(facts: Facts) -> int:
    return len(parse_cpus(facts["cpus"]["allowed"]))


def _size(facts: Facts) -> str:
    """A twentieth of what is free in the fullest of the directories, within bounds."""
    mounts = [file_system(facts, path) for path in facts["directories"]]
    free = [mount["free_kb"] // MIB // 20 for mount in mounts if mount and mount.get("free_kb")]
    return f"{max(SMALLEST_MIB, min([LARGEST_MIB, *free]))}m"


def free_kb(facts: Facts) -> int | None:
    """What is free where the host's clusters are made; None where the facts do not tell."""
    return topology.free_kb(facts, facts["directories"][0])


def spelled(kb: int) -> str:
    """2048 -> "2MB", as PostgreSQL spells sizes."""
    for unit, size in (("GB", 1024 * 1024), ("MB", 1024)):
        if kb % size == 0:
            return f"{kb // size}{unit}"
    return f"{kb}kB"


def rows_that_fit(facts: Facts) -> float:
    """How many rows of pgbench_accounts, with their index, fit the memory."""
    return memory_kb(facts) * 1024 / data.bytes_per_row()


def _four_times_memory(facts: Facts) -> int:
    return math.ceil(DATA_TO_MEMORY * rows_that_fit(facts) / data.ROWS_PER_SCALE)


def _table_of_memory(facts: Facts) -> int:
    """Scale at which the largest table is as large as the memory: at most a third of what is free, and in bounds."""
    room = free_kb(facts)
    most_kb = min([memory_kb(facts), LARGEST_TABLE_KB, *([] if room is None else [room // 3])])
    return max(1, int(most_kb * 1024 / data.table_bytes(1)))


# Numbers of the host that an option may be.
NUMBERS: dict[str, Callable[[Facts], int]] = {
    "cpus": cpus,
    "four_times_memory": _four_times_memory,
    "table_of_memory": _table_of_memory,
}
# Words of a job file: on a host that is known, and where none is chosen yet.
WORDS: dict[str, tuple[Callable[[Facts], Any], Any]] = {
    "{jobs}": (lambda facts: min(MOST_JOBS, cpus(facts)), 64),
    "{size}": (_size, "10240m"),
    "{seconds}": (lambda facts: 180 if cpus(facts) >= MANY_CPUS else 30, 180),
    "{ramp}": (lambda facts: 6 if cpus(facts) >= MANY_CPUS else 2, 6),
}


def scaled(value: Any, facts: Facts) -> Any:
    """The value of an option on a host of these facts; {} for none."""
    if isinstance(value, str) and value in NUMBERS:
        return NUMBERS[value](facts) if facts else value
    if isinstance(value, str):
        for word, (of_facts, usual) in WORDS.items():
            if word in value:
                value = value.replace(word, str(of_facts(facts) if facts else usual))
    return value

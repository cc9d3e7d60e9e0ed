"""Known mechanisms: which figures move, and in which direction, if a setting is increased. Pure.

A mechanism is only reported if all of its observed figures moved as expected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.results.answers.changes.figures import WAL_WAITS
from apps.tuning import gucs
from stats.comparison.associations import Association

Settings = Mapping[str, Any]  # path -> value
_SWITCH = {"off": 0, "false": 0, "never": 0, "try": 1, "madvise": 1, "on": 2, "true": 2, "always": 2}
_COMMIT = {"off": 0, "local": 1, "remote_write": 2, "on": 3, "remote_apply": 4}
_POLICY = {"interleave": 0, "weighted-interleave": 0, "default": 1, "preferred": 2, "localalloc": 2, "membind": 3}


def amount(parameter: str) -> Callable[[Any], float | None]:
    """Return a function that ranks values of this PostgreSQL parameter, such as "128MB" and 16384, in bytes or
    microseconds. It returns None for a value without a number."""
    own, units = gucs.scale_of(gucs.catalogue()[parameter]["unit"]) or (1, {})

    def rank(value: Any) -> float | None:
        match = gucs.QUANTITY.match(str(value).strip())
        factor = ({"": own} | units).get(match[2]) if match else None
        return float(match[1]) * factor if match and factor else None

    return rank


def _ranked(ranks: Mapping[str, float]) -> Callable[[Any], float | None]:
    return lambda value: ranks.get(str(value).lower())


def _compressed(value: Any) -> float | None:
    return None if value is None else float(str(value).lower() not in ("off", "false"))


@dataclass(frozen=True)
class Mechanism:
    """`expected`: key of a figure -> 1 if it increases with the setting, -1 if it decreases. `rank`: the order of
    the setting's values; None for a value without an order. `why`: the mechanism in a sentence."""

    setting: str
    title: str
    rank: Callable[[Any], float | None]
    expected: Mapping[str, int]
    why: str


MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        "settings.huge_pages.use",
        "huge pages",
        _ranked(_SWITCH),
        {"memory.PageTables": -1, "perf.dTLB-load-misses": -1},
        "A huge page needs one page table entry instead of many.",
    ),
    Mechanism(
        "settings.transparent_huge_pages.enabled",
        "transparent huge pages",
        _ranked(_SWITCH),
        {"memory.AnonHugePages": 1, "perf.dTLB-load-misses": -1},
        "The kernel backs memory of processes with fewer, larger pages.",
    ),
    Mechanism(
        "settings.numa.policy",
        "NUMA memory policy",
        _ranked(_POLICY),
        {r"numa.<node>\.other_node": -1, "perf.node-load-misses": -1},
        "The policy decides whether memory lies on the node whose CPUs use it.",
    ),
    *(
        Mechanism(
            f"settings.postgresql.{name}",
            name,
            amount(name),
            {"wal_per_transaction": -1, r"postgresql.pg_stat_wal\.wal_fpi": -1},
            "Fewer checkpoints log fewer full page images.",
        )
        for name in ("max_wal_size", "checkpoint_timeout")
    ),
    Mechanism(
        "settings.postgresql.shared_buffers",
        "shared_buffers",
        amount("shared_buffers"),
        {"blocks_read_per_transaction": -1},
        "Larger shared buffers hold more blocks, so fewer are read.",
    ),
    Mechanism(
        "settings.postgresql.synchronous_commit",
        "synchronous_commit",
        _ranked(_COMMIT),
        {"fsyncs_per_transaction": 1, WAL_WAITS: 1},
        "The setting decides whether a commit waits until its WAL is flushed.",
    ),
    Mechanism(
        "settings.postgresql.wal_compression",
        "wal_compression",
        _compressed,
        {"wal_per_transaction": -1},
        "The setting compresses full page images.",
    ),
    Mechanism(
        "settings.postgresql.full_page_writes",
        "full_page_writes",
        _ranked(_SWITCH),
        {r"postgresql.pg_stat_wal\.wal_fpi": 1, "wal_per_transaction": 1},
        "With it, the first change of a page after a checkpoint logs the whole page.",
    ),
)


def mechanisms(
    compared: Sequence[Association], observed: Collection[str], before: Settings, after: Settings
) -> Iterator[tuple[Mechanism, list[Association]]]:
    """Yield the mechanisms that appear at one level, with the figures that moved.

    `compared`: the level against the baseline. `before` and `after`: settings of baseline and level. `observed`: all
    figures, including those that were equal in all runs."""
    of = {association.figure: association for association in compared}
    for mechanism in MECHANISMS:
        direction = _direction(mechanism, before, after)
        expected = {key: sign * direction for key, sign in mechanism.expected.items() if key in observed}
        if direction and expected and all(key in of and _moved(of[key], sign) for key, sign in expected.items()):
            yield mechanism, [of[key] for key in expected]


def _direction(mechanism: Mechanism, before: Settings, after: Settings) -> int:
    """Return 1 if the setting was increased, -1 if decreased; 0 if it is equal or a value is unknown."""
    if mechanism.setting not in before or mechanism.setting not in after:
        return 0
    one, other = (mechanism.rank(each[mechanism.setting]) for each in (before, after))
    return 0 if one is None or other is None else (other > one) - (other < one)


def _moved(one: Association, sign: int) -> bool:
    return one.differs and one.change * sign > 0

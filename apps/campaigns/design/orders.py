"""The order in which the cells of each block run. Pure: the same cells and seed give the same order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from agents.settings import SETTINGS
from agents.wire.protocol import canonical
from apps.campaigns.design.cells import drawing, square_of
from apps.campaigns.design.factors import Cell, Factor, text_of
from apps.tuning import gucs
from common.errors import PlanError

# Both look like an effect of levels that always run in the same order, in which neighbours can share a start.
FIXED_ORDER = "Not included: drift within a block, because levels run in a fixed order."
FIXED_ORDER_OF_STARTS = (
    "Not included: drift within a block, and variation between starts that levels share, because levels run in a "
    "fixed order."
)
ORDERS = ("randomised", "as_given", "descending", "abba", "fewest_restarts")
HOST, CLUSTER, SERVER = "host", "cluster", "server"
NOTHING = canonical({})


def not_included(order: str, factors: Sequence[Mapping[str, Any]], target: Mapping[str, Any], reboot: str) -> str:
    """Return what comparisons of levels do not include because of the order of their runs; "" if nothing.

    All arguments are as a campaign stores them."""
    fixed = order in ("as_given", "descending") or any(factor.get("order") for factor in factors)
    if not fixed:
        return ""
    return FIXED_ORDER_OF_STARTS if keeps_server(target, reboot) else FIXED_ORDER


def keeps_server(target: Mapping[str, Any], reboot: str) -> bool:
    """Return whether a server can keep running from one run to the next: a remote one does, and an existing cluster
    does between runs that need no restart. A private cluster is started by each run."""
    return "remote" in target or ("data_dir" in target and reboot != "each_run")


def blocks(
    cells: Sequence[Cell], factors: Sequence[Factor], repetitions: int, order: str, seed: int
) -> list[list[int]]:
    """Return, for each repetition, the indexes of the cells in the order in which they run.

    Factors with their own order are outermost, the first factor first; `order` defines the rest."""
    if order not in ORDERS:
        raise PlanError("order", f"{order!r} is not an order", hint="one of " + ", ".join(ORDERS))
    drawn = drawing(seed)
    rows = [_row(cells, order, block, drawn) for block in range(repetitions)]
    ranks = [(factor.name, _ranks(factor)) for factor in factors if factor.order]
    return [sorted(row, key=lambda number: _rank(cells[number], ranks)) for row in rows]


def _row(cells: Sequence[Cell], order: str, block: int, drawn: random.Random) -> list[int]:
    positions = list(range(len(cells)))
    if order in ("randomised", "fewest_restarts"):
        mixed = drawn.sample(positions, len(positions))
        return mixed if order == "randomised" else _together(cells, mixed)
    backwards = order == "descending" or (order == "abba" and block % 2 == 1)
    return positions[::-1] if backwards else positions


def _together(cells: Sequence[Cell], mixed: Sequence[int]) -> list[int]:
    """Return the indexes grouped by boot of the host, then by cluster, then by start of the server. Groups are in
    the order of their first cells."""
    kinds = {number: _kind(cells[number]) for number in mixed}
    first: dict[Any, int] = {}
    for place, number in enumerate(mixed):
        for shared in _nested(kinds[number]):
            first.setdefault(shared, place)
    return sorted(mixed, key=lambda number: [first[shared] for shared in _nested(kinds[number])])


def _nested(kind: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
    return [kind[:depth] for depth in range(1, len(kind) + 1)]


def start_numbers(
    cells: Sequence[Cell], target: Mapping[str, Any], reboot: str = "never", ordered: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Return label -> numbers of the boot, the cluster and the start of the server that its runs share with those of
    other cells in a block, in the order fewest_restarts. Runs that start their own server share only a boot with kernel
    parameters; {} if this is the same one for all, or another one for each.

    `target`, `reboot`: as a campaign stores them. `ordered`: names of factors with an order of their own. They are
    outermost, so nothing is shared by runs with different levels of them."""
    outer = {text_of(cell): tuple(cell[name].label for name in ordered if name in cell) for cell in cells}
    if keeps_server(target, reboot):
        return _numbered(_within(outer, _server_paths(cells, "remote" in target)))
    boots = {text_of(cell): [_begins(cell, HOST)] for cell in cells}
    paths = _within(outer, boots)
    are_shared = 1 < len({start for (start,) in paths.values()}) < len(cells)
    return _numbered(paths) if are_shared and any(boot != [NOTHING] for boot in boots.values()) else {}


def _server_paths(cells: Sequence[Cell], is_remote: bool) -> dict[str, list[Any]]:
    if is_remote:
        return {text_of(cell): list(_nested(_kind(cell))) for cell in cells}
    own = {text_of(cell): _kind(cell)[-1] for cell in cells}
    return {label: [(changes, label if changes != NOTHING else "")] for label, changes in own.items()}


def _within(outer: Mapping[str, Any], paths: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {label: [(outer[label], each) for each in path] for label, path in paths.items()}


def _numbered(paths: Mapping[str, Sequence[Any]]) -> dict[str, list[int]]:
    known = {
        shared: number for number, shared in enumerate(dict.fromkeys(each for own in paths.values() for each in own))
    }
    return {label: [known[shared] for shared in own] for label, own in paths.items()}


def ordered(factors: Sequence[Factor]) -> list[str]:
    """Return the names of the factors with an order of their own."""
    return [factor.name for factor in factors if factor.order]


def share_starts(cells: Sequence[Cell], factors: Sequence[Factor], target: Mapping[str, Any], reboot: str) -> bool:
    """Return whether runs of some cells, but not of all, share a start of the server or a boot in each block."""
    paths = {tuple(path) for path in start_numbers(cells, target, reboot, ordered(factors)).values()}
    return 1 < len(paths) < len(cells)


def whole_plots(factors: Sequence[Factor], target: Mapping[str, Any], reboot: str) -> list[Factor]:
    """Return the factors whose levels change from one shared start to the next: see `start_numbers`."""
    if keeps_server(target, reboot):
        return costly(factors)
    return [f for f in factors if any(begins_anew(path) == HOST for level in f.levels for path in level.set)]


def count_server_starts(cells: Sequence[Cell]) -> int:
    """Return the number of different server starts in a block."""
    return len({_kind(cell) for cell in cells})


def _kind(cell: Cell) -> tuple[bytes, ...]:
    return tuple(_begins(cell, what) for what in (HOST, CLUSTER, SERVER))


def _begins(cell: Cell, what: str) -> bytes:
    """Return the values of a cell that need a new `what`: a boot, a cluster or a start of the server."""
    changes = {path: value for level in cell.values() for path, value in level.set.items()}
    return canonical({path: value for path, value in changes.items() if begins_anew(path) == what})


def begins_anew(path: str) -> str:
    """Return what another value of this path needs: "host" (a boot), "cluster" (a new one, or new data), "server" (a
    restart), or ""."""
    root, _, rest = path.partition(".")
    name, _, part = rest.partition(".")
    if root in ("dataset", "target"):
        return CLUSTER
    if root != "settings" or name not in SETTINGS:
        return ""
    if name == "postgresql":
        return SERVER if gucs.needs_restart(part) else ""
    return SETTINGS[name].begins_anew(part)


def costly(factors: Sequence[Factor]) -> list[Factor]:
    """Return the factors with a level that needs a boot, a new cluster or a restart of the server."""
    return [f for f in factors if any(begins_anew(path) for level in f.levels for path in level.set)]


def square(count: int, repetitions: int, order: str, seed: int) -> list[list[int]]:
    """Return blocks as rows of Latin squares, with positions in a block as columns: each cell is equally often at
    each position."""
    if repetitions % count:
        hint = f"use {count}, {2 * count}, ... repetitions: a multiple of the number of levels"
        raise PlanError(
            "repetitions", f"{repetitions} blocks of {count} positions do not form a Latin square", hint=hint
        )
    if order != "randomised":
        raise PlanError("order", "a Latin square defines the order itself", hint="leave it randomised")
    drawn = drawing(f"square {seed}")
    return [row for _ in range(repetitions // count) for row in square_of(count, drawn)]


def _rank(cell: Cell, ranks: Sequence[tuple[str, Mapping[str, float]]]) -> tuple[float, ...]:
    return tuple(positions[cell[name].label] if name in cell else float("-inf") for name, positions in ranks)


def _ranks(factor: Factor) -> dict[str, float]:
    """Return the position of each label in the factor's own order: by size if its levels are quantities, else as
    listed."""
    sign = -1.0 if factor.order == "descending" else 1.0
    sizes = _sizes(factor) or [float(place) for place in range(len(factor.levels))]
    return {level.label: sign * size for level, size in zip(factor.levels, sizes, strict=True)}


def _sizes(factor: Factor) -> list[float]:
    """Return the sizes of the first path that all levels set to quantities, else of their labels; [] if neither are
    quantities."""
    shared = [path for path in factor.levels[0].set if all(path in level.set for level in factor.levels)]
    candidates = [[level.set[path] for level in factor.levels] for path in shared]
    for texts in [*candidates, [level.label for level in factor.levels]]:
        sizes = _quantities([str(text) for text in texts])
        if len(set(sizes)) == len(factor.levels):
            return sizes
    return []


def _quantities(texts: Sequence[str]) -> list[float]:
    """Return comparable numbers for quantities of memory, time, or counts; [] for anything else."""
    matches = [gucs.QUANTITY.match(text) for text in texts]
    pairs = [(float(match.group(1)), match.group(2)) for match in matches if match]
    if len(pairs) < len(texts):
        return []
    for units in (gucs.MEMORY, gucs.TIME):
        if all(unit in units for _, unit in pairs):
            return [number * units[unit] for number, unit in pairs]
    plain = not any(unit in gucs.MEMORY or unit in gucs.TIME for _, unit in pairs)
    return [number for number, _ in pairs] if plain else []

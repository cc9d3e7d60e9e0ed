"""Select the combinations of levels that a campaign runs: one function per design. Pure: the same factors and seed
give the same cells."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence

from apps.campaigns.design.factors import Cell, Factor, by_dependence, text_of
from common.errors import PlanError

DESIGNS = ("factorial", "one_at_a_time", "list", "latin_square", "random_sample")
MOST = 20_000
# Draws per requested cell. If they do not suffice, the conditions leave too few cells.
DRAWS = 1000


def drawing(seed: int | str) -> random.Random:
    """Return a generator of reproducible random numbers."""
    return random.Random(seed)  # noqa: S311 - an order, not a secret


def cells(
    factors: Sequence[Factor],
    design: str = "factorial",
    listed: Sequence[Mapping[str, str]] = (),
    sample: int | None = None,
    seed: int = 0,
) -> list[Cell]:
    """Return the cells in the order of the design; the last factor varies fastest. The first cell is the baseline."""
    if design == "factorial":
        return every(factors)
    if design == "one_at_a_time":
        return one_at_a_time(factors)
    if design == "list":
        return chosen(factors, listed)
    if design == "latin_square":
        return latin_square(factors, seed)
    if design == "random_sample":
        return sampled(factors, sample, seed)
    raise PlanError("design", f"{design!r} is not a design", hint="one of " + ", ".join(DESIGNS))


def every(factors: Sequence[Factor]) -> list[Cell]:
    """Return the full factorial: every combination that the conditions allow."""
    combinations = list(itertools.islice(_possible(by_dependence(factors), {}), MOST + 1))
    if len(combinations) > MOST:
        size = math.prod(len(factor.levels) for factor in factors)
        hint = "remove levels, or use a random sample of the combinations"
        raise PlanError("factors", f"{size} combinations are too many; at most {MOST} are allowed", hint=hint)
    return sorted((_in_order(factors, cell) for cell in combinations), key=lambda cell: _place(factors, cell))


def _possible(left: Sequence[Factor], cell: Cell) -> Iterator[Cell]:
    """Yield the completions of a cell by the factors that are left. A factor without a possible level is absent."""
    if not left:
        yield cell
        return
    levels = left[0].possible(cell)
    for level in levels:
        yield from _possible(left[1:], {**cell, left[0].name: level})
    if not levels:
        yield from _possible(left[1:], cell)


def _in_order(factors: Sequence[Factor], cell: Cell) -> Cell:
    return {factor.name: cell[factor.name] for factor in factors if factor.name in cell}


def _place(factors: Sequence[Factor], cell: Cell) -> tuple[int, ...]:
    return tuple(factor.levels.index(cell[factor.name]) if factor.name in cell else -1 for factor in factors)


def one_at_a_time(factors: Sequence[Factor]) -> list[Cell]:
    """Return the first level of each factor, then each other level on its own."""
    _without_conditions(factors, "one factor at a time")
    baseline = {factor.name: factor.levels[0] for factor in factors}
    others = [{**baseline, factor.name: level} for factor in factors for level in factor.levels[1:]]
    return [baseline, *others]


def _without_conditions(factors: Sequence[Factor], design: str) -> None:
    for i, factor in enumerate(factors):
        if factor.follows:
            hint = "use a full factorial, a random sample or a list with conditions"
            raise PlanError(f"factors.{i}", f"{design} does not support levels that depend on others", hint=hint)


def chosen(factors: Sequence[Factor], listed: Sequence[Mapping[str, str]]) -> list[Cell]:
    """Return the listed cells, given as {factor: label}."""
    if not listed:
        hint = '[{"factor": "label", ...}, ...]'
        raise PlanError("cells", "this design needs a list of combinations", hint=hint)
    combinations = [_listed(f"cells.{i}", factors, each) for i, each in enumerate(listed)]
    for i, cell in enumerate(combinations):
        if cell in combinations[:i]:
            raise PlanError(
                f"cells.{i}", f"{text_of(cell)!r} appears twice", hint="use repetitions to repeat combinations"
            )
    return combinations


def _listed(field: str, factors: Sequence[Factor], labels: Mapping[str, str]) -> Cell:
    cell: Cell = {}
    for factor in by_dependence(factors):
        possible = {level.label: level for level in factor.possible(cell)}
        label = labels.get(factor.name)
        if label is None and not possible:
            continue
        if label not in possible:
            problem = f"{label!r} is not a level" if label is not None else "there is no level"
            hint = f"accepted there: {', '.join(possible) or 'none; omit it'}"
            raise PlanError(field, f"{problem} of {factor.name}", hint=hint)
        cell[factor.name] = possible[label]
    strange = next((name for name in labels if name not in {factor.name for factor in factors}), None)
    if strange is not None:
        raise PlanError(field, f"{strange!r} is not a factor", hint=f"accepted: {', '.join(f.name for f in factors)}")
    return _in_order(factors, cell)


def latin_square(factors: Sequence[Factor], seed: int) -> list[Cell]:
    """Return a Latin square: rows and columns are the first two factors; each level of the third occurs once per row
    and column.

    With a single factor, rows are blocks and columns the positions in a block; see orders.py."""
    _without_conditions(factors, "a Latin square")
    fixed = {each.name: next(iter(each.levels)) for each in factors if len(each.levels) == 1}
    factors = [each for each in factors if each.name not in fixed] or factors
    if len(factors) == 1:
        return [cell | fixed for cell in every(factors)]
    sizes = {len(factor.levels) for factor in factors}
    if len(factors) != 3 or len(sizes) != 1:
        shown = ", ".join(f"{factor.name} ({len(factor.levels)})" for factor in factors)
        hint = "use three factors with the same number of levels, or one factor with as many repetitions as levels"
        raise PlanError("factors", f"a Latin square is not possible with {shown}", hint=hint)
    square, (rows, columns, inside) = square_of(len(factors[0].levels), drawing(f"square {seed}")), factors
    return [
        {rows.name: row, columns.name: column, inside.name: inside.levels[square[i][j]]} | fixed
        for i, row in enumerate(rows.levels)
        for j, column in enumerate(columns.levels)
    ]


def square_of(size: int, drawn: random.Random) -> list[list[int]]:
    """Return a cyclic Latin square with permuted rows, columns and symbols."""
    rows, columns, symbols = (drawn.sample(range(size), size) for _ in range(3))
    return [[symbols[(row + column) % size] for column in columns] for row in rows]


def sampled(factors: Sequence[Factor], sample: int | None, seed: int) -> list[Cell]:
    """Return a random sample of all cells, without replacement. Only the sampled cells are created."""
    if not sample or not 1 <= sample <= MOST:
        raise PlanError("sample", f"{sample!r} is not between 1 and {MOST}", hint="the number of combinations to draw")
    drawn = drawing(f"sample {seed}")
    if math.prod(len(factor.levels) for factor in factors) > MOST:
        return _drawn(factors, sample, drawn)
    space = every(factors)
    if sample > len(space):
        raise PlanError(
            "sample", f"the sample has {sample} of {len(space)} combinations", hint="choose fewer, or a full factorial"
        )
    return [space[place] for place in sorted(drawn.sample(range(len(space)), sample))]


def _drawn(factors: Sequence[Factor], sample: int, drawn: random.Random) -> list[Cell]:
    size, tried, drawn_cells = math.prod(len(factor.levels) for factor in factors), set[int](), dict[int, Cell]()
    for _ in range(DRAWS * sample):
        number = drawn.randrange(size)
        cell = None if number in tried else _numbered(factors, number)
        tried.add(number)
        if cell is not None:
            drawn_cells[number] = cell
        if len(drawn_cells) == sample:
            return [drawn_cells[number] for number in sorted(drawn_cells)]
    raise PlanError("sample", f"the conditions allow only {len(drawn_cells)} of {sample} combinations", hint="fewer")


def _numbered(factors: Sequence[Factor], number: int) -> Cell | None:
    """Return the cell with this number in the product of all levels; None if the conditions forbid it.

    A factor that does not apply must be at its first level, so that each cell has one number."""
    levels = {}
    for factor in reversed(factors):
        number, place = divmod(number, len(factor.levels))
        levels[factor.name] = factor.levels[place]
    cell: Cell = {}
    for factor in by_dependence(factors):
        level, possible = levels[factor.name], factor.possible(cell)
        if level in possible:
            cell[factor.name] = level
        elif possible or level is not factor.levels[0]:
            return None
    return _in_order(factors, cell)

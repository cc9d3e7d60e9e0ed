"""Designs and orders: an example of each, and their rules for any factors."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.campaigns.design import cells, factors, orders, plan
from apps.campaigns.design.request import Arrangement
from apps.campaigns.design.steps import single
from common.errors import PlanError

BASE: dict[str, Any] = {
    "target": None,
    "settings": {},
    "steps": single("pgbench", {"builtin": "select-only", "time_s": 5}),
    "collect": {"interval_s": 1, "sources": []},
}
Raw = dict[str, Any]


def factor(name: str, *labels: str, path: str = "", order: str = "", **when: Any) -> Raw:
    """A factor whose levels are called by their values; `when` holds conditions of all its levels."""
    levels = [{"label": label, "set": {path: label} if path else {}, "when": when} for label in labels]
    return {"name": name, "levels": levels, "order": order}


def design(*raw: Raw, **options: Any) -> list[str]:
    """The cells in the order of the design."""
    return [factors.text_of(cell) for cell in cells.cells(plan.read_factors(list(raw)), **options)]


def blocks(*raw: Raw, repetitions: int = 2, order: str = "as_given", seed: int = 1, **options: Any) -> list[list[str]]:
    """The cells of each block in the order in which they run."""
    runs = plan.expand(BASE, Arrangement(factors=list(raw), repetitions=repetitions, order=order, seed=seed, **options))
    return [[", ".join(run.cell.values()) for run in runs if run.block == block] for block in range(repetitions)]


HUGE = factor("huge", "off", "on")
SIZE = factor("size", "2MB", "1GB", huge=["on"])
POOL = factor("pool", "128MB", "1GB", "8GB", path="settings.postgresql.shared_buffers")
CLIENTS = factor("clients", "1", "8")


# Designs


def test_one_factor_at_a_time_begins_at_the_first_levels_and_changes_one() -> None:
    assert design(POOL, HUGE, design="one_at_a_time") == ["128MB, off", "1GB, off", "8GB, off", "128MB, on"]


def test_the_baseline_of_one_factor_at_a_time_runs_once_per_block() -> None:
    for row in blocks(POOL, HUGE, repetitions=3, order="randomised", design="one_at_a_time"):
        assert row.count("128MB, off") == 1 and len(row) == 4


def test_a_list_runs_as_it_is_listed() -> None:
    listed = [{"pool": "8GB", "huge": "on"}, {"huge": "off", "pool": "128MB"}]

    assert design(POOL, HUGE, design="list", listed=listed) == ["8GB, on", "128MB, off"]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([], "this design needs a list of combinations"),
        ([{"pool": "8GB"}], "there is no level of huge"),
        ([{"pool": "9GB", "huge": "on"}], "'9GB' is not a level of pool"),
        ([{"pool": "8GB", "huge": "on", "disk": "a"}], "'disk' is not a factor"),
        ([{"pool": "8GB", "huge": "on"}] * 2, "appears twice"),
    ],
)
def test_a_list_with_an_invalid_combination_is_refused(listed: list[dict[str, str]], message: str) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        design(POOL, HUGE, design="list", listed=listed)

    assert refused.value.subject.startswith("cells")


def test_a_latin_square_has_each_level_once_in_each_row_and_column() -> None:
    three = [factor(name, "1", "2", "3", "4") for name in ("disk", "cpu", "policy")]

    combinations = [cell.split(", ") for cell in design(*three, design="latin_square", seed=5)]

    assert len(combinations) == 16
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert len({(cell[one], cell[other]) for cell in combinations}) == 16


def test_the_seed_of_a_latin_square_permutes_it() -> None:
    three = [factor(name, "1", "2", "3", "4") for name in ("disk", "cpu", "policy")]

    drawn = {tuple(design(*three, design="latin_square", seed=seed)) for seed in range(5)}

    assert len(drawn) > 1


def test_a_latin_square_of_one_factor_has_blocks_as_rows_and_their_places_as_columns() -> None:
    rows = blocks(POOL, repetitions=6, order="randomised", design="latin_square")

    assert all(sorted(row) == ["128MB", "1GB", "8GB"] for row in rows)
    for square in (rows[:3], rows[3:]):
        assert all(len(set(column)) == 3 for column in zip(*square, strict=True))


@pytest.mark.parametrize(
    ("raw", "options", "field"),
    [
        ([POOL, HUGE], {}, "factors"),
        ([POOL, POOL | {"name": "b"}, HUGE], {}, "factors"),
        ([HUGE, SIZE, CLIENTS], {}, "factors.1"),
        ([POOL], {"repetitions": 4, "order": "randomised"}, "repetitions"),
        ([POOL], {"repetitions": 3, "order": "abba"}, "order"),
    ],
)
def test_a_design_that_is_not_a_latin_square_is_refused(raw: list[Raw], options: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        blocks(*raw, design="latin_square", **options)

    assert refused.value.subject == field


def test_a_sample_of_a_space_that_could_never_be_made_is_drawn_at_once() -> None:
    space = [factor(f"f{number}", *map(str, range(10))) for number in range(40)]

    combinations = design(*space, design="random_sample", sample=50, seed=3)

    assert len(set(combinations)) == 50
    assert combinations == design(*space, design="random_sample", sample=50, seed=3)
    assert combinations != design(*space, design="random_sample", sample=50, seed=4)


@pytest.mark.parametrize("sample", [None, 0, 7, 20_001])
def test_a_sample_larger_than_its_space_or_of_nothing_is_refused(sample: int | None) -> None:
    with pytest.raises(PlanError) as refused:
        design(POOL, HUGE, design="random_sample", sample=sample)

    assert refused.value.subject == "sample"


def test_a_sample_for_which_conditions_leave_too_few_is_refused() -> None:
    digits = [str(digit) for digit in range(10)]
    same = [{"label": digit, "set": {}, "when": {"f0": [digit]}} for digit in digits]
    space = [factor("f0", *digits), *({"name": f"f{number}", "levels": same} for number in range(1, 6))]

    with pytest.raises(PlanError, match="of 20 combinations") as refused:
        design(*space, design="random_sample", sample=20)

    assert refused.value.subject == "sample"


# Levels that depend on others


def test_a_level_exists_only_with_those_it_depends_on_and_its_factor_stays_away_elsewhere() -> None:
    assert design(HUGE, SIZE) == ["off", "on, 2MB", "on, 1GB"]


def test_a_factor_may_come_before_the_one_that_it_depends_on() -> None:
    assert design(SIZE, HUGE) == ["off", "2MB, on", "1GB, on"]


def test_conditions_may_follow_each_other() -> None:
    nodes = factor("nodes", "all", "one", size=["1GB"])

    assert design(HUGE, SIZE, nodes) == ["off", "on, 2MB", "on, 1GB, all", "on, 1GB, one"]


def test_a_cell_without_a_factor_has_none_of_its_paths() -> None:
    memory = factor("memory", "8MB", path="settings.postgresql.work_mem", huge=["on"])

    runs = plan.expand(BASE, Arrangement(factors=[HUGE, memory], repetitions=1, order="as_given"))

    assert [dict(run.cell) for run in runs] == [{"huge": "off"}, {"huge": "on", "memory": "8MB"}]
    assert [run.spec["settings"] for run in runs] == [{}, {"postgresql": {"work_mem": "8MB"}}]


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        ([HUGE, factor("size", "2MB", hugh=["on"])], "factors.1.levels.0.when", "is not another factor"),
        ([HUGE, factor("size", "2MB", size=["2MB"])], "factors.1.levels.0.when", "is not another factor"),
        ([HUGE, factor("size", "2MB", huge=["maybe"])], "factors.1.levels.0.when", "no level 'maybe'"),
        ([HUGE, factor("size", "2MB", huge="on")], "factors.1.levels.0.when", "is not a list of labels of"),
        ([factor("a", "1", b=["1"]), factor("b", "1", a=["1"])], "factors", "form a cycle"),
        ([POOL | {"order": "upwards"}], "factors.0.order", "is not an order"),
    ],
)
def test_invalid_conditions_and_orders_are_refused_by_field(raw: list[Raw], field: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        plan.read_factors(raw)

    assert refused.value.subject == field


def test_one_factor_at_a_time_takes_no_conditions() -> None:
    with pytest.raises(PlanError, match="depend on others"):
        design(HUGE, SIZE, design="one_at_a_time")


def test_combinations_that_would_bear_the_same_name_are_refused() -> None:
    labels = factor("kind", "a, x", "a")
    left, right = factor("left", "y", kind=["a, x"]), factor("right", "x, y", kind=["a"])

    with pytest.raises(PlanError, match="have the same name 'a, x, y'"):
        blocks(labels, left, right)


# Orders


def test_abba_runs_every_second_block_backwards() -> None:
    assert blocks(POOL, repetitions=3, order="abba") == [
        ["128MB", "1GB", "8GB"],
        ["8GB", "1GB", "128MB"],
        ["128MB", "1GB", "8GB"],
    ]


def test_a_factor_with_an_order_of_its_own_is_the_outermost_and_the_others_are_drawn_within() -> None:
    rows = blocks(CLIENTS, POOL | {"order": "descending"}, repetitions=20, order="randomised")

    assert all([cell.split(", ")[1] for cell in row] == ["8GB"] * 2 + ["1GB"] * 2 + ["128MB"] * 2 for row in rows)
    assert len({tuple(row) for row in rows}) > 1


@pytest.mark.parametrize(
    ("labels", "rising"),
    [
        (("14GB", "128kB", "1GB"), ["128kB", "1GB", "14GB"]),
        (("10s", "500ms", "1min"), ["500ms", "10s", "1min"]),
        (("64 clients", "8 clients"), ["8 clients", "64 clients"]),
        (("small", "tiny", "large"), ["small", "tiny", "large"]),
        (("1GB", "10s"), ["1GB", "10s"]),
    ],
)
def test_ascending_levels_are_sorted_by_quantity_or_else_in_the_given_order(
    labels: tuple[str, ...], rising: list[str]
) -> None:
    assert blocks(factor("x", *labels, order="ascending"), repetitions=1)[0] == rising
    assert blocks(factor("x", *labels, order="descending"), repetitions=1)[0] == rising[::-1]


def test_the_quantity_is_that_of_the_value_and_not_of_the_label() -> None:
    named = factor("pool", order="descending") | {
        "levels": [
            {"label": label, "set": {"settings.postgresql.shared_buffers": value}}
            for label, value in (("small", "128MB"), ("huge", "8GB"), ("large", "1GB"))
        ]
    }

    assert blocks(named, repetitions=1) == [["huge", "large", "small"]]


def test_fewest_restarts_groups_runs_with_the_same_server_start_and_randomises_the_rest() -> None:
    clients = factor("clients", "1", "8", "64", path="workload.mode") | {"levels": CLIENTS["levels"]}

    rows = blocks(clients, POOL, repetitions=20, order="fewest_restarts")

    for row in rows:
        pools = [cell.split(", ")[1] for cell in row]
        assert len(list(groupby(pools))) == 3
    assert len({tuple(row) for row in rows}) > 5


def test_creating_a_cluster_costs_more_than_a_start() -> None:
    segments = factor("segments", "16", "64", path="settings.initdb.wal_segsize")
    read = plan.read_factors([POOL, segments])

    rows = orders.blocks(cells.every(read), read, 10, "fewest_restarts", 1)

    named = [[factors.text_of(cells.every(read)[number]).split(", ")[1] for number in row] for row in rows]
    assert all(row in (["16"] * 3 + ["64"] * 3, ["64"] * 3 + ["16"] * 3) for row in named)


def test_a_boot_of_the_host_costs_more_than_a_cluster() -> None:
    segments = factor("segments", "16", "64", path="settings.initdb.wal_segsize")
    mitigations = factor("mitigations", "auto", "off", path="settings.kernel_command_line.mitigations")
    read = plan.read_factors([segments, mitigations])

    rows = orders.blocks(cells.every(read), read, 10, "fewest_restarts", 1)

    named = [[factors.text_of(cells.every(read)[number]).split(", ")[1] for number in row] for row in rows]
    assert all(row in (["auto"] * 2 + ["off"] * 2, ["off"] * 2 + ["auto"] * 2) for row in named)
    assert [each.name for each in orders.costly(read)] == ["segments", "mitigations"]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("settings.postgresql.shared_buffers", "server"),
        ("settings.postgresql.work_mem", ""),
        ("settings.huge_pages.use", "server"),
        ("settings.cpu_affinity.server", "server"),
        ("settings.cpu_affinity.client", ""),
        ("settings.sysctl.vm.swappiness", ""),
        ("settings.initdb.wal_segsize", "cluster"),
        ("settings.kernel_command_line.processor.max_cstate", "host"),
        ("settings.kernel_command_line.boot_limit_s", ""),
        ("dataset.scale", "cluster"),
        ("workload.clients", ""),
    ],
)
def test_each_setting_has_the_restart_that_a_new_value_needs(path: str, what: str) -> None:
    assert orders.begins_anew(path) == what


# Rules for any factors


@st.composite
def any_factors(draw: st.DrawFn) -> list[Raw]:
    """One to four factors; levels may depend on a level of an earlier one."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    drawn: list[Raw] = []
    for number, size in enumerate(sizes):
        levels: list[Raw] = []
        for place in range(size):
            level: Raw = {"label": f"{number}{'abcd'[place]}", "set": {}}
            if drawn and draw(st.integers(0, 3)) == 0:
                other = draw(st.sampled_from(drawn))
                level["when"] = {other["name"]: [draw(st.sampled_from(other["levels"]))["label"]]}
            levels.append(level)
        order = draw(st.sampled_from(["", "", "ascending", "descending"]))
        drawn.append({"name": f"f{number}", "levels": levels, "order": order})
    return drawn


@settings(max_examples=60)
@given(any_factors(), st.sampled_from(orders.ORDERS), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_each_combination_runs_once_in_each_block_and_the_same_seed_gives_the_same_plan(
    raw: list[Raw], order: str, repetitions: int, seed: int
) -> None:
    rows = blocks(*raw, repetitions=repetitions, order=order, seed=seed)

    assert all(Counter(row) == Counter(design(*raw)) for row in rows)
    assert max(Counter(rows[0]).values()) == 1
    assert rows == blocks(*raw, repetitions=repetitions, order=order, seed=seed)


@settings(max_examples=60)
@given(any_factors())
def test_every_condition_holds_and_a_factor_stays_away_only_where_it_has_no_level(raw: list[Raw]) -> None:
    read = plan.read_factors(raw)

    for cell in cells.every(read):
        for each in read:
            possible = each.possible(cell)
            assert cell[each.name] in possible if each.name in cell else not possible


@settings(max_examples=60)
@given(any_factors(), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_a_sample_is_distinct_and_of_the_space(raw: list[Raw], sample: int, seed: int) -> None:
    space = design(*raw)
    sample = min(sample, len(space))

    sampled = design(*raw, design="random_sample", sample=sample, seed=seed)

    assert len(set(sampled)) == sample and set(sampled) <= set(space)


def test_each_allowed_cell_of_a_large_space_has_one_number() -> None:
    first = {"label": "2MB", "set": {}, "when": {"huge": ["on"]}}
    size = {"name": "size", "levels": [first, {"label": "any", "set": {}}]}

    def numbered(*raw: Raw) -> list[str | None]:
        picked = [cells._numbered(plan.read_factors(list(raw)), number) for number in range(4)]
        return [factors.text_of(cell) if cell else None for cell in picked]

    assert numbered(HUGE, size) == [None, "off, any", "on, 2MB", "on, any"]
    assert numbered(HUGE, SIZE) == ["off", None, "on, 2MB", "on, 1GB"]


@settings(max_examples=30)
@given(any_factors(), st.integers(0, 2**32 - 1))
def test_a_large_space_is_drawn_from_by_the_same_rules(raw: list[Raw], seed: int) -> None:
    read, space = plan.read_factors(raw), set(design(*raw))

    drawn = cells._drawn(read, len(space), cells.drawing(seed)) if len(space) <= 8 else []

    assert not drawn or {factors.text_of(cell) for cell in drawn} == space


@settings(max_examples=30)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_a_square_is_latin(size: int, seed: int) -> None:
    square = cells.square_of(size, cells.drawing(seed))

    assert all(sorted(line) == list(range(size)) for line in [*square, *map(list, zip(*square, strict=True))])

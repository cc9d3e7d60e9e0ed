"""Spaces of a search: parsing, errors, and the values that are proposed."""

from __future__ import annotations

from typing import Any

import pytest

from apps.searches import optimiser, presets, space
from apps.searches.optimiser import Tried
from common.errors import PlanError
from tests.rows.factories import FACTS


@pytest.mark.parametrize(
    ("line", "shown", "value", "setting"),
    [
        ("shared_buffers 128MB to 4GB log", "128MB to 4GB, log", 197505, {"postgresql.shared_buffers": "1536MB"}),
        ("random_page_cost 1 to 4", "1 to 4", 1.2345, {"postgresql.random_page_cost": "1.25"}),
        ("vacuum_cost_delay 0 to 10ms", "0ms to 10ms", 2.3456, {"postgresql.vacuum_cost_delay": "2.375ms"}),
        ("max_parallel_workers 0 to 8", "0 to 8", 0, {"postgresql.max_parallel_workers": "0"}),
        ("jit", "on, off", "off", {"postgresql.jit": "off"}),
        ("wal_compression off, pglz", "off, pglz", "pglz", {"postgresql.wal_compression": "pglz"}),
        ("vm.dirty_ratio 5 to 60", "5 to 60", 33, {"sysctl.vm.dirty_ratio": 33}),
        ("huge_pages.use on, off", "on, off", "on", {"huge_pages.use": "on"}),
    ],
)
def test_a_line_is_a_range_or_choices_in_the_units_of_the_setting(
    line: str, shown: str, value: Any, setting: dict[str, Any]
) -> None:
    one = space.read([line])
    [each] = one.dimensions

    assert each.shown == shown
    levels = one.level({each.name: each.rounded(value)})
    assert levels == {f"settings.{path}": wanted for path, wanted in setting.items()}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "at least one setting"),
        (["share_buffers 1MB to 2MB"], "did you mean shared_buffers"),
        (["work_mem 2MB to 1MB"], "not a range"),
        (["work_mem 0 to 1MB log"], "out of range"),
        (["random_page_cost 0 to 4 log"], "log needs one above 0"),
        (["wal_buffers 2kB to 1MB log"], "log needs one above 0"),  # 0 blocks of 8 kB
        (["work_mem 2XB to 4MB"], "unit 'XB' is not accepted"),
        (["work_mem"], "not a range or a list"),
        (["jit on"], "at least two choices"),
        (["jit perhaps, on"], "not a boolean"),
        (["jit on, off", "jit on, off"], "appears twice"),
        (["work_mem 1MB to 2MB when jit = on"], "not an earlier setting"),
        (["jit on, off", "work_mem 1MB to 2MB when jit = x"], "not a choice of jit"),
        (["vm.dirty_ratio 0 to 10"], "less than the minimum"),
        (["huge_pages.use true, false"], "'true' is not a choice of huge_pages.use"),
        (["archive_command 'a', 'b'"], "not a setting"),
    ],
)
def test_an_invalid_line_is_refused_with_its_field_and_what_is_accepted(lines: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=r"^space") as refused:
        space.read(lines)

    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit", "zero_damaged_pages"])
def test_a_setting_that_risks_data_needs_to_be_allowed_by_name(name: str) -> None:
    risky = space.read([f"{name} on, off"])

    with pytest.raises(PlanError, match="risks data"):
        space.check(risky, FACTS, allowed=[])
    space.check(risky, FACTS, allowed=[name])


def test_more_memory_than_the_host_has_is_refused() -> None:
    with pytest.raises(PlanError, match=r"exceeds the memory of the host, 7\.63GB"):
        space.check(space.read(["shared_buffers 1GB to 16GB log"]), FACTS, allowed=[])


SPACE = space.read(["work_mem 64kB to 1GB log", "jit on, off", "max_parallel_workers 1 to 8 when jit = on"])


def test_the_same_trials_and_seed_propose_the_same_values_each_time() -> None:
    tried = [Tried({"work_mem": 64 * 2**each, "jit": "off"}, 0.1 * each, bad=each == 3) for each in range(12)]
    waiting = Tried({"work_mem": 4096, "jit": "on", "max_parallel_workers": 2})

    one, other = (optimiser.propose(SPACE, [*tried, waiting], 4, seed=5) for _ in range(2))

    assert one == other and len(one) == 4
    assert all(("max_parallel_workers" in each) == (each["jit"] == "on") for each in one)


def test_a_small_space_is_exhausted_without_repeating_values() -> None:
    proposals = optimiser.propose(space.read(["jit on, off"]), [Tried({"jit": "on"}, 0.1)], 4, seed=1)

    assert proposals == [{"jit": "off"}]


@pytest.mark.parametrize("gib", [1, 8, 512])
@pytest.mark.parametrize("name", presets.presets())
def test_a_named_space_fits_hosts_of_any_memory(name: str, gib: int) -> None:
    facts = {"memory": {"total_kb": gib * 1024**2}}

    scaled = space.read(presets.expanded(["enable_memoize on, off", name], facts))

    space.check(scaled, facts, allowed=[])
    shared_buffers = next(dimension for dimension in scaled.dimensions if dimension.name == "shared_buffers")
    assert shared_buffers.high * 8 == gib * 1024**2 / 2
    assert scaled.dimensions[0].name == "enable_memoize"

"""What counts as a change of the host, and what is a neighbour's."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import snapshot

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
MAP_HUGETLB = 0x40000


@pytest.fixture
def pool(host_wide: None) -> Iterator[Path]:
    before = POOL.read_text()
    yield POOL
    POOL.write_text(before)


@pytest.mark.needs("root")
def test_huge_pages_that_a_neighbour_still_holds_are_not_counted(pool: Path) -> None:
    before = snapshot.take()[str(pool)]
    pool.write_text(str(int(before) + 4))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB
    with mmap.mmap(-1, 2 << 20, flags=flags) as pages:
        pages[0] = 1

        pool.write_text(before)

        assert int(pool.read_text()) == int(before) + 1
        assert snapshot.take()[str(pool)] == before


@pytest.mark.needs("root")
def test_a_pool_of_another_size_is_a_change(pool: Path) -> None:
    before = snapshot.take()
    pool.write_text(str(int(before[str(pool)]) + 2))

    assert str(pool) in snapshot.differences(before, snapshot.take())

"""Differences that count as a change of the host, and changes of other processes."""

from __future__ import annotations

import mmap
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import snapshot

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
MAP_HUGETLB = 0x40000


@pytest.fixture
def pool(host_wide: None) -> Iterator[Path]:
    """Emptied, but for the pages that PostgreSQL of another test uses."""
    before = snapshot.take()[str(POOL)]
    POOL.write_text("0")
    yield POOL
    POOL.write_text(before)


@pytest.mark.needs("root")
def test_huge_pages_that_a_neighbour_still_holds_are_not_counted(pool: Path) -> None:
    before, used = snapshot.take()[str(pool)], int(pool.read_text())
    pool.write_text(str(used + 4))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB
    with mmap.mmap(-1, 2 << 20, flags=flags) as pages:
        pages[0] = 1

        pool.write_text("0")

        assert int(pool.read_text()) == used + 1
        assert snapshot.take()[str(pool)] == before


@pytest.mark.needs("root")
def test_a_pool_of_another_size_is_a_change(pool: Path) -> None:
    before = snapshot.take()

    pool.write_text(str(int(pool.read_text()) + 2))

    assert str(pool) in snapshot.differences(before, snapshot.take())


@pytest.mark.needs("root")
@pytest.mark.usefixtures("host_wide")
def test_a_loop_device_counts_only_while_it_has_a_file(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    device = losetup("--find", "--show", str(image)).removeprefix("/dev/")
    attached = snapshot.take()

    losetup("--detach", f"/dev/{device}")

    scheduler = f"/sys/block/{device}/queue/scheduler"
    assert scheduler in attached and scheduler not in snapshot.take()


def losetup(*arguments: str) -> str:
    return subprocess.run(
        ["losetup", *arguments], check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()

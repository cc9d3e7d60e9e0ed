"""Pools of huge pages: their sizes, their nodes, and the proof that they are used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.errors import NotApplied, Unplannable
from agents.records.journal import Journal
from agents.records.spool import Job
from agents.settings import SETTINGS, Scene, Write
from agents.settings.proofs.huge_pages import prove, shared_mapping_kb
from tests.agents.fakes import FakeSystem, stat_line

CASES = Path(__file__).parents[1] / "cases"
FACTS = json.loads((CASES / "facts.json").read_text())
HUGE = "/sys/kernel/mm/hugepages/hugepages-2048kB"
NODE = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB"
POOL = "/proc/sys/vm/nr_hugepages"
SMAPS = """\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 [heap]
Size:            9999999 kB
KernelPageSize:        4 kB
7f0000000000-7f0010000000 rw-s 00000000 00:0f 123 /anon_hugepage (deleted)
Size:             262144 kB
KernelPageSize:     2048 kB
7f0000000000-7f0000001000 rw-s 00000000 00:01 9 /dev/zero (deleted)
Size:                  4 kB
KernelPageSize:        4 kB
"""


def host(
    nodes: list[tuple[int, int]], reserved: int = 0, available: int = 8_000_000, on_node: int = 8_000_000
) -> FakeSystem:
    """A host whose nodes have these (total, free) pages."""
    files = {
        "/proc/meminfo": f"MemAvailable: {available} kB\nHugepagesize: 2048 kB\nHugePages_Surp: 0\n",
        f"{HUGE}/nr_hugepages": str(sum(total for total, _ in nodes)),
        f"{HUGE}/free_hugepages": str(sum(free for _, free in nodes)),
        f"{HUGE}/resv_hugepages": str(reserved),
        f"{HUGE}/surplus_hugepages": "0",
        POOL: str(sum(total for total, _ in nodes)),
    }
    for node, (total, free) in enumerate(nodes):
        files[NODE.format(node) + "/nr_hugepages"] = str(total)
        files[NODE.format(node) + "/free_hugepages"] = str(free)
        files[f"/sys/devices/system/node/node{node}/meminfo"] = (
            f"Node {node} MemTotal: 9999999 kB\nNode {node} MemFree: {on_node - 1000} kB\n"
            f"Node {node} Active(file): 400 kB\nNode {node} Inactive(file): 600 kB\n"
        )
    return FakeSystem(files)


def resolved(system: FakeSystem, requested: dict[str, Any], needed: int, major: int = 18) -> list[Write]:
    setting = SETTINGS["huge_pages"]
    at = Scene(system=system, facts=FACTS, major=major, huge_pages_needed=lambda kb: needed)
    return setting.resolve(at, setting.plan(FACTS, requested), requested).writes


def values(writes: list[Write]) -> list[int]:
    return [int(write.wanted) for write in writes]


@pytest.mark.parametrize(
    ("total", "free", "reserved", "target"),
    [(0, 0, 0, 100), (40, 40, 0, 100), (40, 30, 0, 110), (200, 150, 0, 200), (200, 150, 100, 250)],
)
def test_auto_grows_the_pool_by_the_missing_pages_and_never_shrinks_it(
    total: int, free: int, reserved: int, target: int
) -> None:
    assert values(resolved(host([(total, free)], reserved), {"use": "on"}, needed=100)) == [target]


def test_a_number_is_exact_and_may_shrink_the_pool() -> None:
    assert values(resolved(host([(500, 500)]), {"use": "on", "pool": 120}, needed=100)) == [120]


def test_auto_on_nodes_distributes_the_missing_pages() -> None:
    requested = {"use": "on", "nodes": "all"}

    assert values(resolved(host([(0, 0), (0, 0)]), requested, needed=101)) == [51, 50]
    assert values(resolved(host([(10, 10), (30, 20)]), requested, needed=100)) == [45, 65]


def test_free_pages_of_other_nodes_do_not_count_for_auto_on_one_node() -> None:
    assert values(resolved(host([(500, 500), (0, 0)]), {"use": "on", "nodes": "1"}, needed=100)) == [100]


def test_pools_per_node_have_exactly_the_requested_sizes() -> None:
    assert values(resolved(host([(9, 9), (9, 9)]), {"use": "on", "per_node": {"0": 70, "1": 40}}, needed=100)) == [
        70,
        40,
    ]


def test_a_total_records_the_nodes_because_the_kernel_spreads_it() -> None:
    """Each node can get up to the total; the restore writes each of them."""
    grown, shrunk = (
        resolved(host([(10, 10), (190, 190)]), {"use": "on", "pool": pool}, needed=100)[0] for pool in (300, 150)
    )

    assert grown.also == {NODE.format(n) + "/nr_hugepages": "300" for n in (0, 1)}
    assert shrunk.also == {NODE.format(n) + "/nr_hugepages": "0" for n in (0, 1)}


def test_a_pool_larger_than_memory_is_refused_before_the_write() -> None:
    with pytest.raises(NotApplied) as failure:
        resolved(host([(0, 0)], available=1_000_000), {"use": "on", "pool": 5000}, needed=100)

    assert failure.value.details["wanted"] == "5000 pages of 2048 kB (10000 MB more)"
    assert "which allow 439 pages" in failure.value.details["found"]


def test_a_pool_larger_than_the_memory_of_its_node_is_refused() -> None:
    requested = {"use": "on", "per_node": {"1": 500}}

    with pytest.raises(NotApplied, match="500 pages of 2048 kB on node 1") as failure:
        resolved(host([(0, 0), (0, 0)], on_node=1_000_000), requested, needed=100)

    assert "976 MB available, which allow 439 pages" in failure.value.details["found"]


def test_nodes_that_have_enough_each_may_be_too_much_together() -> None:
    requested = {"use": "on", "per_node": {"0": 400, "1": 400}}

    with pytest.raises(NotApplied, match="it should be 800 pages of 2048 kB"):
        resolved(host([(0, 0), (0, 0)], available=1_000_000, on_node=1_000_000), requested, needed=100)


@pytest.mark.parametrize("requested", [{"pool": 50}, {"per_node": {"0": 20, "1": 30}}])
def test_a_pool_too_small_for_the_server_is_refused_before_it_starts(requested: dict[str, Any]) -> None:
    with pytest.raises(
        NotApplied, match="it should be 100 free pages for this shared_buffers, but is a pool of 50 pages"
    ):
        resolved(host([(0, 0), (0, 0)]), {"use": "on", **requested}, needed=100)


def test_a_page_size_needs_postgresql_14() -> None:
    with pytest.raises(Unplannable, match="PostgreSQL 13 has no huge_page_size"):
        resolved(host([(0, 0)]), {"use": "on", "size": "2MB"}, needed=1, major=13)


class Fragmented(FakeSystem):
    """Grants `first` pages, and `then` once memory was compacted."""

    def __init__(self, first: int, then: int) -> None:
        super().__init__({POOL: "0", "/proc/sys/vm/compact_memory": ""})
        self.most, self.then, self.attempts = first, then, 0

    def write(self, path: str, text: str) -> None:
        if path == POOL:
            self.attempts += 1
            self.files[path] = str(min(int(text), self.most))
        else:
            self.most = self.then


@pytest.mark.parametrize(("then", "granted"), [(100, True), (70, False)])
def test_memory_is_compacted_once_before_pages_are_requested_again(tmp_path: Path, then: int, granted: bool) -> None:
    system = Fragmented(first=60, then=then)
    journal = Journal(Job(tmp_path, system, lambda: None), system)
    (planned,) = resolved(host([(0, 0)]), {"use": "on", "pool": 100}, needed=10)
    write = replace(planned, also={})

    if granted:
        journal.apply("huge_pages", write)
    else:
        with pytest.raises(NotApplied) as failure:
            journal.apply("huge_pages", write)
        assert (failure.value.details["wanted"], failure.value.details["found"]) == (f"{POOL} = 100", "70")
    assert system.attempts == 2
    assert journal.restore() == ([], []) and system.files[POOL] == "0"


def test_page_size_is_that_of_the_largest_shared_mapping() -> None:
    assert shared_mapping_kb(SMAPS) == 2048
    assert shared_mapping_kb("") == 0


def running(backend: str = "hugeinter", surplus: int = 0) -> Scene:
    system = host([(50, 6), (60, 16)])
    system.files.update(
        {
            "/proc/10/stat": stat_line(10, "postgres"),
            "/proc/10/task/10/children": "11",
            "/proc/10/smaps": SMAPS,
            "/proc/11/stat": stat_line(11, "postgres", parent=10),
            "/proc/11/task/11/children": "",
            "/proc/11/numa_maps": (CASES / f"numa_maps/{backend}.backend.txt").read_text(),
            f"{HUGE}/surplus_hugepages": str(surplus),
        }
    )
    return Scene(system=system, facts=FACTS, postmaster=10, major=18, sql=lambda query: "on")


def test_the_proof_reads_postmaster_and_backend_and_the_pools_per_node() -> None:
    before, during = prove(running(), 2048, "before", False)[0], prove(running(), 2048, "during", False)[0]

    assert (before.ok, before.found, during.ok, during.found) == (True, 2048, True, 2048)
    assert before.evidence["pool"]["per_node"] == {"0": {"total": 50, "free": 6}, "1": {"total": 60, "free": 16}}
    assert during.evidence["pid"] == 11


def test_a_backend_in_small_pages_fails() -> None:
    (proof,) = prove(running("default"), 2048, "during", False)

    assert (proof.ok, proof.wanted, proof.found) == (False, 2048, 4)


def test_a_backend_that_was_just_forked_and_has_touched_nothing_proves_nothing() -> None:
    at = running()
    maps = "7f4069e00000 default file=/anon_hugepage\\040(deleted) huge\n7f407521e000 default file=/SYSV0002000b\n"
    at.system.files["/proc/11/numa_maps"] = maps  # type: ignore[attr-defined]

    assert prove(at, 2048, "during", False) == []


def test_without_huge_pages_the_pages_must_be_small() -> None:
    assert prove(running("default"), 0, "during", False)[0].ok
    assert not prove(running("hugeinter"), 0, "during", False)[0].ok


def test_a_pool_that_shrinks_while_in_use_fails_the_proof_although_its_pages_remain() -> None:
    at = running(surplus=44)
    at.writes["huge_pages"] = [Write(f"{HUGE}/nr_hugepages", "110")]

    (pool, _) = SETTINGS["huge_pages"].verify(at, {"use": "on"}, "after")

    assert (pool.ok, pool.wanted, pool.found) == (False, "110", "66")


def test_surplus_pages_in_use_are_requested_again_when_the_pool_grows() -> None:
    """Growing makes them lasting before any page is added; without growth they are left to go."""
    system = host([(50, 10)])
    system.files[f"{HUGE}/surplus_hugepages"] = "20"

    assert values(resolved(system, {"use": "on"}, needed=100)) == [140]
    assert values(resolved(system, {"use": "on"}, needed=10)) == [30]

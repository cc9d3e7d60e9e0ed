"""The topology of a host from its facts: sockets, nodes, caches, cores and sentences."""

from __future__ import annotations

from typing import Any

import pytest

from apps.hosts.facts import topology
from tests.servers import machine


def host(*rows: tuple[int, int, int, str], caches: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Cpus as (socket, core, node, siblings), numbered as they come."""
    names = ("socket", "core", "node", "siblings")
    placed = [{"cpu": cpu, **dict(zip(names, row, strict=True))} for cpu, row in enumerate(rows)]
    return {"cpus": {"topology": placed, "allowed": f"0-{len(rows) - 1}", "caches": caches or []}}


def drawn(facts: dict[str, Any]) -> list[Any]:
    """[socket, [node, [domain of cores of cpus]]]"""
    return [
        [s.number, [[n.number, [[[t.cpu for t in c] for c in d.cores] for d in n.domains]] for n in s.nodes]]
        for s in topology.sockets(facts)
    ]


def test_threads_of_a_core_are_adjacent() -> None:
    assert drawn(machine.facts()) == [
        [0, [[0, [[[0, 8], [1, 9], [2, 10], [3, 11]]]]]],
        [1, [[1, [[[4, 12], [5, 13], [6, 14], [7, 15]]]]]],
    ]


def test_cores_are_grouped_by_their_last_shared_cache() -> None:
    rows = [(0, core, 0, str(core)) for core in range(4)]
    l3 = {"level": 3, "type": "Unified", "kb": 16384, "shared": ["0-1", "2-3"]}

    facts = host(*rows, caches=[l3, {"level": 2, "type": "Unified", "kb": 512, "shared": ["0", "1", "2", "3"]}])

    assert drawn(facts) == [[0, [[0, [[[0], [1]], [[2], [3]]]]]]]
    assert [(d.level, d.kb) for d in topology.sockets(facts)[0].nodes[0].domains] == [(3, 16384), (3, 16384)]


def test_a_node_over_two_sockets_says_so() -> None:
    nodes = [node for socket in topology.sockets(host((0, 0, 0, "0"), (1, 0, 0, "1"))) for node in socket.nodes]

    assert [(node.number, node.sockets) for node in nodes] == [(0, [0, 1]), (0, [0, 1])]


def test_a_node_of_memory_alone_is_drawn_beside_the_sockets() -> None:
    nodes = [{"id": 0, "cpus": "0-1", "mem_kb": 0}, {"id": 1, "cpus": "", "mem_kb": 4_000_000, "free_kb": 3_000_000}]
    facts = {**host((0, 0, 0, "0"), (0, 1, 0, "1")), "numa": {"nodes": nodes}}
    facts["cpus"].update(sockets=1, cores=2, threads=2)

    (alone,) = topology.nodes_without_cpus(facts)

    assert (alone.number, alone.memory_kb, alone.domains, alone.sockets) == (1, 4_000_000, [], [])
    assert drawn(facts) == [[0, [[0, [[[0], [1]]]]]]] and topology.sockets(facts)[0].nodes[0].memory_kb == 0
    assert topology.line(facts) == "1 socket, 2 cores, 2 threads, 2 nodes (1 without CPUs)"


def test_huge_pages_are_shown_on_their_node() -> None:
    pool = {"kb": 2048, "per_node": {"0": 0, "1": 512}, "free_per_node": {"0": 0, "1": 12}}

    sockets = topology.sockets(machine.facts(huge_pages={"default_kb": 2048, "sizes": [pool]}))

    assert [(each.total, each.free) for socket in sockets for each in socket.nodes[0].pools] == [(0, 0), (512, 12)]


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([0, 0, 0, 0], ""),
        ([0, 0, 1, 1], "CPUs are numbered socket by socket."),
        ([1, 0, 1, 0], "CPUs are numbered across sockets: neighbours by number are on different sockets."),
        (
            [0, 0, 1, 1, 0, 0, 1, 1],
            "CPUs are numbered socket by socket, first one thread of each core, then the others.",
        ),
    ],
)
def test_the_numbering_of_cpus_is_described(order: list[int], says: str) -> None:
    assert topology.numbering(host(*((socket, cpu, 0, str(cpu)) for cpu, socket in enumerate(order)))) == says


def test_facts_of_an_older_agent_are_drawn_as_far_as_they_go() -> None:
    rows = [{"cpu": cpu, "socket": 0, "core": cpu % 2, "node": 0} for cpu in range(4)]
    facts = {"cpus": {"topology": rows, "allowed": "0,1"}, "huge_pages": {"sizes": [{"kb": 2048, "total": 0}]}}

    assert drawn(facts) == [[0, [[0, [[[0, 2], [1, 3]]]]]]]
    assert [t.allowed for t in topology.sockets(facts)[0].nodes[0].domains[0].cores[0]] == [True, False]
    assert topology.sockets({}) == topology.caches({}) == topology.distances({}) == []


def test_caches_are_counted_with_the_cpus_that_share_them() -> None:
    described = {cache.name: (cache.kb, cache.count, cache.threads) for cache in topology.caches(machine.facts())}

    assert described == {"L1 data": (32, 8, 2), "L1 instructions": (32, 8, 2), "L2": (1024, 8, 2), "L3": (25344, 2, 8)}

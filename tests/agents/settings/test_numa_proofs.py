"""Proofs of NUMA placement from numa_maps of a real host with two nodes (cases/numa_maps)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.collectors.numa import Numa as NumaCollector
from agents.errors import Unplannable, WorkloadFailure
from agents.host.numa_maps import by_kind, by_policy, parse
from agents.settings import SETTINGS, Proof, Scene
from agents.settings.proofs.numa import MANY, sample
from tests.agents.fakes import FakeSystem, stat_line

CASES = Path(__file__).parents[1] / "cases"
FACTS = json.loads((CASES / "facts.json").read_text())
MEMBIND = {"policy": "membind", "nodes": "1"}


def recorded(name: str) -> str:
    return (CASES / f"numa_maps/{name}.txt").read_text()


def server(postmaster: str, backend: str, *, cpus: str = "0-7", **more: Any) -> Scene:
    """A scene with a postmaster (pid 10) and one backend (pid 11), and numastat of two nodes."""
    node = "numa_hit {}\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 5\nlocal_node {}\nother_node 0\n"
    files = {
        "/proc/10/task/10/children": "11",
        "/proc/11/task/11/children": "",
        "/proc/10/stat": stat_line(10, "postgres", cpu=1),
        "/proc/11/stat": stat_line(11, "postgres", parent=10, cpu=3),
        "/proc/10/status": f"Cpus_allowed_list:\t{cpus}\n",
        "/proc/11/status": f"Cpus_allowed_list:\t{cpus}\n",
        "/proc/10/numa_maps": postmaster,
        "/proc/11/numa_maps": backend,
        "/sys/devices/system/node/node0/numastat": node.format(1000, 1000),
        "/sys/devices/system/node/node1/numastat": node.format(50, 50),
    }
    return Scene(system=FakeSystem(files), facts=FACTS, postmaster=10, **more)


def prove(at: Scene, requested: dict[str, Any], phase: str = "during") -> dict[str, Proof]:
    return {proof.subject: proof for proof in SETTINGS["numa"].verify(at, requested, phase)}


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        ("default", {"policy": "default"}),
        ("interleave", {"policy": "interleave", "nodes": "all"}),
        ("localalloc", {"policy": "localalloc"}),
        ("membind1", MEMBIND),
        ("preferred1", {"policy": "preferred", "nodes": "1"}),
        ("preferredmany", {"policy": "preferred-many", "nodes": "0-1"}),
        ("hugeinter", {"policy": "interleave", "nodes": "0-1"}),
    ],
)
def test_recorded_maps_of_two_nodes_prove_the_requested_policy(name: str, requested: dict[str, Any]) -> None:
    maps = recorded(f"{name}.backend")

    proofs = prove(server(maps, maps), requested)

    assert all(proof.ok for proof in proofs.values()), proofs
    assert [row["pid"] for row in proofs["memory policy"].evidence["processes"]] == [10, 11]
    assert [row["last_cpu"] for row in proofs["memory policy"].evidence["processes"]] == [1, 3]


@pytest.mark.parametrize("name", ["default", "interleave", "localalloc", "membind1", "preferred1"])
def test_no_other_policy_passes_for_preferred_0(name: str) -> None:
    maps = recorded(f"{name}.backend")

    proof = prove(server(maps, maps), {"policy": "preferred", "nodes": "0"})["memory policy"]

    assert not proof.ok and proof.wanted == "prefer:0" != proof.found


def test_one_process_that_escaped_is_enough_to_fail() -> None:
    at = server(recorded("membind1.postmaster"), recorded("default.backend"))

    proof = prove(at, MEMBIND)["memory policy"]

    assert (proof.ok, proof.wanted, proof.found) == (False, "bind:1", "bind:1 default")


def test_older_kernels_write_an_equals_sign_and_prefer_for_local() -> None:
    maps = recorded("interleave.backend").replace("interleave:", "interleave=")
    local = recorded("localalloc.backend").replace(" local ", " prefer ")

    assert prove(server(maps, maps), {"policy": "interleave"})["memory policy"].found == "interleave:0-1"
    assert prove(server(local, local), {"policy": "localalloc"})["memory policy"].ok


@pytest.mark.parametrize(
    ("requested", "refused"), [({"policy": "default"}, False), (MEMBIND, True), ({"cpunodebind": "0"}, True)]
)
def test_unreadable_memory_maps_do_not_prove_a_policy(requested: dict[str, Any], refused: bool) -> None:
    verdicts = [proof.ok for proof in prove(server("", ""), requested).values()]

    assert verdicts == ([False] if refused else [])


def test_weighted_interleave_has_a_blank_in_its_name() -> None:
    maps = recorded("interleave.backend").replace("interleave:", "weighted interleave:")

    assert prove(server(maps, maps), {"policy": "weighted-interleave"})["memory policy"].ok
    assert not prove(server(maps, maps), {"policy": "interleave"})["memory policy"].ok


def test_kilobytes_are_summed_by_node_kind_and_policy() -> None:
    mappings = parse(recorded("hugeinter.backend"))

    kinds, policies = by_kind(mappings), by_policy(mappings)

    assert kinds["shared"] == {"0": 23 * 2048 + 9 * 4, "1": 21 * 2048 + 11 * 4}
    assert kinds["private"] == {"0": (76 + 62 + 5) * 4, "1": (79 + 63 + 4) * 4}
    assert policies == {"interleave:0-1": {n: kinds["shared"][n] + kinds["private"][n] for n in "01"}}


def test_the_spread_of_interleave_is_reported() -> None:
    maps = recorded("interleave.backend")

    proof = prove(server(maps, maps), {"policy": "interleave"})["shared memory by node (kB)"]

    assert proof.found == "node 0: 19656, node 1: 20092"
    assert proof.evidence["share_per_node"] == {"0": 0.495, "1": 0.505}


def test_shared_pages_are_counted_once_for_the_process_that_touched_most() -> None:
    at = server(recorded("membind1.postmaster"), recorded("membind1.backend"))

    proof = prove(at, MEMBIND)["shared memory by node (kB)"]

    assert proof.ok and proof.evidence["kb_per_node"]["shared"] == {"1": (11851 + 19 + 1) * 4}


def test_a_page_on_the_wrong_node_under_membind_fails_the_run() -> None:
    moved = recorded("membind1.backend").replace("N1=11851", "N0=1 N1=11850")

    proof = prove(server(moved, moved), MEMBIND, "after")["shared memory by node (kB)"]

    assert not proof.ok and proof.wanted == "none outside node 1" and proof.evidence["kb_outside"] == 4


def test_files_that_were_cached_elsewhere_before_are_tolerated() -> None:
    maps = recorded("membind1.backend") + "7fd0 bind:1 file=/usr/lib/libm.so mapped=90 N0=90 kernelpagesize_kB=4\n"

    proof = prove(server(maps, maps), MEMBIND)["shared memory by node (kB)"]

    assert proof.ok and proof.evidence["tolerated_kb_outside"] >= 2 * 360


@pytest.mark.parametrize(("cpus", "ok"), [("1,3,5", True), ("0-7", False)])
def test_cpunodebind_is_proven_by_the_cpus_of_every_process(cpus: str, ok: bool) -> None:
    maps = recorded("default.backend")

    proofs = prove(server(maps, maps, cpus=cpus), {"cpunodebind": "0"}, "before")

    assert proofs["memory policy"].ok
    assert (proofs["cpus of node 0"].ok, proofs["cpus of node 0"].wanted) == (ok, "1,3,5")


def test_a_slow_read_of_pages_is_not_repeated_in_the_step_but_policies_are() -> None:
    maps = recorded("membind1.backend")
    at = server(maps, maps)
    ticks = iter(range(0, 100, 2))
    at.system.mono = lambda: float(next(ticks))  # type: ignore[method-assign]

    first, second = prove(at, MEMBIND), prove(at, MEMBIND)

    assert "shared memory by node (kB)" in first and first["memory policy"].evidence["read_s"] > 2.0
    assert list(second) == ["memory policy"] and len(second["memory policy"].evidence["processes"]) == 2


@pytest.mark.parametrize("length", range(130, 170))
def test_a_line_that_is_cut_in_its_policy_is_ignored(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = recorded("interleave.backend")
    at = server(maps, maps)
    at.notes["numa"] = {"slow": True}
    monkeypatch.setattr("agents.settings.proofs.numa.HEAD", length)

    assert prove(at, {"policy": "interleave"})["memory policy"].ok


def test_of_very_many_processes_an_even_sample_is_read() -> None:
    crowd: Any = list(range(1000))

    assert sample(crowd[:5], MANY) == crowd[:5]
    assert sample(crowd, MANY) == crowd[::5]


def test_the_proof_has_the_difference_of_numastat_during_the_load() -> None:
    maps = recorded("default.backend")
    at = server(maps, maps)
    SETTINGS["numa"].act(at, {}, "warm")
    at.system.files["/sys/devices/system/node/node1/numastat"] = "numa_hit 80\nnuma_miss 7\n"  # type: ignore[attr-defined]

    proof = prove(at, {}, "after")["shared memory by node (kB)"]

    assert proof.evidence["numastat_difference"]["node1"] == {"numa_hit": 30, "numa_miss": 7}
    assert proof.evidence["numastat_difference"]["node0"]["numa_hit"] == 0
    assert proof.evidence["numastat_before"]["node1"]["numa_hit"] == 50


@pytest.mark.parametrize(
    ("major", "last", "answer", "evidence"),
    [
        (18, True, {"0": 4096, "1": 8192}, {"0": 4096, "1": 8192}),
        (18, True, None, "this PostgreSQL was built without libnuma"),
        (18, True, WorkloadFailure("no such function"), "no such function"),
        (18, False, {"0": 4096}, None),
        (17, True, {"0": 4096}, None),
    ],
)
def test_postgresql_18_is_queried_after_the_last_step(major: int, last: bool, answer: Any, evidence: Any) -> None:
    def sql(query: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    maps = recorded("default.backend")
    at = server(maps, maps, major=major, last=last, sql=sql)

    proof = prove(at, {}, "after")["shared memory by node (kB)"]

    assert proof.ok and proof.evidence.get("pg_shmem_allocations_numa") == evidence


def test_the_collector_samples_pages_per_second_and_memory_of_each_node() -> None:
    system = server("", "").system
    for node, kb in enumerate(({"MemUsed": 80, "MemFree": 20}, {"MemUsed": 30, "MemFree": 70})):
        lines = [f"Node {node} {name}:       {each} kB" for name, each in {"MemTotal": 100, **kb}.items()]
        system.files[f"/sys/devices/system/node/node{node}/meminfo"] = "\n".join(lines)  # type: ignore[attr-defined]
    collector = NumaCollector(system, Path("/"))
    collector.start()
    system.files["/sys/devices/system/node/node1/numastat"] = "numa_hit 90\nnuma_miss 4\n"  # type: ignore[attr-defined]
    system.sleep(2.0)

    values = collector.sample()

    assert (values["node1.numa_hit"], values["node1.numa_miss"], values["node0.numa_hit"]) == (20.0, 2.0, 0.0)
    assert [values[f"node{node}.{name}"] for node in (0, 1) for name in ("MemUsed", "MemFree")] == [80, 20, 30, 70]
    assert all(collector.column(name) for name in values)


AUTO = "/sys/kernel/mm/mempolicy/weighted_interleave/auto"


class WithoutBandwidths(FakeSystem):
    def write(self, path: str, text: str) -> None:
        raise OSError(19, "No such device", path)


@pytest.mark.parametrize(("mode", "kernel", "refused"), [
    ("true", WithoutBandwidths, True), ("false", WithoutBandwidths, False), ("true", FakeSystem, False),
])  # fmt: skip
def test_weights_are_refused_where_the_kernel_could_not_choose_again(mode: str, kernel: Any, refused: bool) -> None:
    requested = {"policy": "weighted-interleave", "weights": {"0": 3}}
    at, setting = Scene(system=kernel({AUTO: mode}), facts=FACTS), SETTINGS["numa"]
    plan = setting.plan(FACTS, requested)

    if refused:
        with pytest.raises(Unplannable, match="no weights: this kernel chooses them, and cannot return to"):
            setting.resolve(at, plan, requested)
    else:
        assert setting.resolve(at, plan, requested) == plan

"""Parts of the lab that need no guest: ports, topologies, and the arguments of QEMU."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.campaigns.recipes.scale import DATA_TO_MEMORY
from tests.lab.machines import emulator, image
from tests.lab.machines.lab import LabError, emulator_pid
from tests.lab.machines.topologies import DEFAULT, TOPOLOGIES, Topology


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that something is bound to, as by a machine that an earlier session left behind."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def nothing(state: Path, port: int) -> list[str]:
    """A machine without CPUs that only forwards a port."""
    network = f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22"
    argv = [emulator.QEMU, "-M", "none", "-nodefaults", "-display", "none", "-netdev", network]
    return [*argv, "-daemonize", "-pidfile", str(state / "pid")]


@pytest.mark.lab
def test_a_port_that_is_taken_meanwhile_is_passed_over(tmp_path: Path, taken: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = int(server.getsockname()[1])

    port = emulator.launch(lambda port: nothing(tmp_path, port), iter([taken, free]))

    pid = emulator_pid(tmp_path)
    assert pid is not None
    try:
        assert port == free
    finally:
        emulator.end(tmp_path, limit_s=10)
    assert emulator_pid(tmp_path) is None


@pytest.mark.lab
def test_another_fault_of_qemu_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"QEMU did not start: .*unsupported machine type"):
        emulator.launch(lambda port: [emulator.QEMU, "-M", "nonexistent", "-display", "none"], iter([1]))


def test_a_bound_port_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound is enough: a machine that has just started does not listen yet."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = int(bound.getsockname()[1])
        monkeypatch.setattr(emulator, "PORTS", range(port, port + 1))
        assert list(emulator.free_ports()) == []
    assert list(emulator.free_ports()) == [port]


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=list(TOPOLOGIES))
def test_a_topology_is_whole(topology: Topology) -> None:
    """Distances of each pair of nodes are symmetric, and nodes with CPUs have the same number of them, as QEMU
    requires."""
    count = len(topology.nodes)
    assert [len(row) for row in topology.distances] == [count] * count
    for source, row in enumerate(topology.distances):
        assert row[source] == 10 and all(far > 10 for target, far in enumerate(row) if target != source)
        assert list(row) == [other[source] for other in topology.distances]
    assert len({node.cpus for node in topology.nodes if node.cpus}) == 1


def test_a_disk_holds_the_system_the_data_of_the_recipe_active_set_their_copy_and_their_wal() -> None:
    def gibibytes(size: str) -> int:
        return int(size.removesuffix("G"))

    data = DATA_TO_MEMORY * DEFAULT.memory_mb / 1024

    assert gibibytes(image.DISK_SIZE) >= gibibytes(image.SIZE) + 2 * data + 4


def test_arguments_of_nodes_without_cpus_and_without_memory(tmp_path: Path) -> None:
    def nodes(name: str) -> list[str]:
        arguments = emulator.arguments(TOPOLOGIES[name], tmp_path, "tcg", 22000)
        return [word for word in arguments if word.startswith("node,")]

    assert nodes("memory-only") == [
        "node,nodeid=0,memdev=mem0,cpus=0-1",
        "node,nodeid=1,memdev=mem1",
        "node,nodeid=2,memdev=mem2",
    ]
    assert nodes("cpu-only")[1] == "node,nodeid=1,cpus=2-3"


@pytest.mark.needs("x86-64")
def test_an_emulated_machine_gets_the_frequency_of_its_time_stamp_counter(tmp_path: Path) -> None:
    """Otherwise Linux measures it at boot, and on a busy host the guest's clock ran six times too fast."""
    arguments = " ".join(emulator.arguments(DEFAULT, tmp_path, "tcg", 22000))

    (khz,) = re.findall(r"tsc_early_khz=(\d+)", arguments)

    assert int(khz) == pytest.approx(emulator.measure_tsc_khz(), rel=0.001)
    assert "tsc_early_khz" not in " ".join(emulator.arguments(DEFAULT, tmp_path, "kvm", 22000))


@pytest.mark.thorough
def test_an_unknown_accelerator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVING_LAB_ACCEL", "xen")
    with pytest.raises(LabError, match="'xen'; accepted: auto, kvm, tcg"):
        emulator.accelerator()


@pytest.mark.thorough
def test_a_configured_mirror_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVING_LAB_MIRROR", "http://mirror.example/debian")
    assert image.mirrors() == ("http://mirror.example/debian", None)

"""Proofs of kernel settings with devices and meters that this machine does not have."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Cancelled, NotApplied
from agents.host.pagecache import resident
from agents.host.system import System
from agents.settings import SETTINGS, Plan, Scene, Write, cache
from agents.settings.block_device import spread
from agents.settings.cache import PIECE, drop, in_memory, left, prewarm
from agents.settings.cpu_power import QOS
from embedded.paths import CHECKOUT
from tests.agents.fakes import FakeSystem

VAR = CHECKOUT / "var"
# LVM over a mirror of a disk's partition and of a whole disk.
STACK = {
    "/sys/block/dm-0/slaves/md0": "",
    "/sys/block/md0/slaves/sda2": "",
    "/sys/block/md0/slaves/sdb": "",
    "/sys/block/sda/sda2/partition": "2",
    "/sys/block/sdb/size": "1",
}
LINKS = {"/sys/class/block/sda2": "../../devices/pci0000:00/ata1/block/sda/sda2"}


def test_a_stack_of_devices_is_read_ahead_at_its_top_and_scheduled_at_its_bottom() -> None:
    system, data = FakeSystem(STACK, links=LINKS), "/sys/block/$DATA/queue"

    scheduler = spread(system, "dm-0", Write(f"{data}/scheduler", "none"))
    ahead = spread(system, "dm-0", Write(f"{data}/read_ahead_kb", "4096"))

    assert [write.key for write in scheduler] == ["/sys/block/sda/queue/scheduler", "/sys/block/sdb/queue/scheduler"]
    assert [write.key for write in ahead] == ["/sys/block/dm-0/queue/read_ahead_kb"]


def test_a_file_that_the_device_lacks_is_not_in_effect() -> None:
    setting, system = SETTINGS["block_device"], FakeSystem({"/sys/block/sda/queue/nomerges": "0"})
    plan = Plan(writes=[Write("/sys/block/sda/queue/wbt_lat_usec", "0")])

    with pytest.raises(NotApplied, match="this kernel has no such file"):
        setting.resolve(Scene(system=system, facts={}), plan, {"sda": {"wbt_lat_usec": 0}})


OVERCOMMIT = {"vm.overcommit_memory": "0", "vm.overcommit_ratio": "50", "vm.overcommit_kbytes": "0"}


@pytest.mark.parametrize(
    ("vm", "promised_kb", "refused"),
    [
        ({"overcommit_memory": 2}, 400_000, False),
        ({"overcommit_memory": 2}, 500_000, True),
        ({"overcommit_memory": 2, "overcommit_ratio": 80}, 500_000, False),
        ({"overcommit_memory": 2, "overcommit_kbytes": 100_000}, 400_000, True),
        ({"overcommit_memory": 1}, 500_000, False),
        ({"overcommit_ratio": 10}, 500_000, False),
    ],
)
def test_committed_memory_must_stay_well_below_the_overcommit_limit(
    vm: dict[str, int], promised_kb: int, refused: bool
) -> None:
    # Huge pages are not to be promised again: (1200000 - 100 * 2000) / 2 + 100000 kB of swap.
    info = "MemTotal: 1200000\nHugePages_Total: 100\nHugepagesize: 2000\nSwapTotal: 100000\n"
    system = FakeSystem({"/proc/meminfo": f"{info}Committed_AS: {promised_kb}\n"})
    scene, setting = Scene(system=system, facts={"sysctls": OVERCOMMIT}), SETTINGS["sysctl"]

    try:
        setting.resolve(scene, Plan(), {"vm": vm})
    except NotApplied as failure:
        assert refused and "no process could start" in failure.hint
    else:
        assert not refused


class Device(FakeSystem):
    """Reading the device returns the strictest of all requests."""

    def data(self, path: str, size: int) -> bytes:
        assert (path, size) == (QOS, 4)
        return struct.pack("=i", 2)


@pytest.mark.parametrize(("latency_us", "ok"), [(2, True), (50, False)])
def test_a_stricter_request_of_another_process_is_not_the_proof_of_the_run(latency_us: int, ok: bool) -> None:
    (proof,) = SETTINGS["cpu_power"].verify(Scene(system=Device(), facts={}), {"latency_us": latency_us}, "before")

    assert (proof.wanted, proof.found, proof.ok) == (latency_us, 2, ok)


class Memory(FakeSystem):
    """A host with these shares of the page cache; `drops`: whether it drops caches on request."""

    def __init__(self, drops: bool = True) -> None:
        meminfo = "Cached: 900000 kB\nShmem: 100000 kB\n"
        super().__init__({"/proc/meminfo": meminfo, "/proc/vmstat": "drop_pagecache 4", "/proc/sys/vm/drop_caches": ""})
        self.kernel = lambda path, text: self.files.update({"/proc/vmstat": f"drop_pagecache {4 + drops}"}) or ""
        self.cached: dict[str, tuple[int, int]] = {}

    def sync(self) -> None:
        self.files["synced"] = ""

    def in_page_cache(self, path: str) -> tuple[int, int]:
        return self.cached.get(os.path.basename(path), (0, 0))


@pytest.mark.parametrize("drops", [True, False])
def test_a_kernel_that_accepts_and_ignores_an_order_is_detected(drops: bool) -> None:
    system = Memory(drops)

    (proof,) = drop(Scene(system=system, facts={}))

    assert proof.ok is drops and "synced" in system.files


@pytest.mark.parametrize(("cached_bytes", "ok"), [(0, True), (9, True), (10, False)])
def test_a_hundredth_of_the_data_may_be_left(tmp_path: Path, cached_bytes: int, ok: bool) -> None:
    (tmp_path / "base/5").mkdir(parents=True)
    (tmp_path / "base/5/16384").touch()
    (tmp_path / "pg_wal").mkdir()
    (tmp_path / "pg_wal/0001").touch()
    system = Memory()
    system.cached = {"16384": (1000, cached_bytes), "0001": (1000, 1000)}

    proof = left(system, str(tmp_path))

    assert (proof.found, proof.ok) == (cached_bytes / 1000, ok)


def loaded(in_page_cache: int, in_buffers: int) -> tuple[float, bool]:
    """The proof for a relation of 100 blocks, of which so many are there."""
    answers: list[Any] = [
        ["pg_prewarm", "pg_buffercache"],
        819200,
        {"loaded": 100, "blocks": 100, "path": "base/5/16384", "block": 8192},
        {"blocks": in_buffers},
    ]
    system = Memory()
    system.cached = {"16384": (819200, in_page_cache * 8192)}
    (proof,) = prewarm(Scene(system=system, facts={}, sql=lambda query: answers.pop(0)), ["t"])
    return proof.found, proof.ok


def test_a_relation_is_warm_in_the_page_cache_or_in_shared_buffers() -> None:
    assert loaded(100, 0) == (1.0, True)
    assert loaded(10, 99) == (0.99, True)
    assert loaded(50, 60) == (0.6, False)


def big_tables(queries: list[str]) -> Callable[[str], Any]:
    """A server with a table of 300 MiB, which loses 8 MiB while it is loaded, and one of a block."""

    def answer(query: str) -> Any:
        queries.append(query)
        if "pg_available_extensions" in query:
            return ["pg_prewarm"]
        if "unnest" in query:
            return (300 << 20) + 8192
        first, blocks = loaded_from(query), 1
        if "public.big" in query:
            blocks = (300 << 7) - 1024 * (first > 0)
        path = "base/5/16384" if "public.big" in query else "base/5/16385"
        loaded = max(0, min(first + PIECE, blocks) - first)
        return {"loaded": loaded, "blocks": blocks, "block": 8192, "path": path}

    return answer


def loaded_from(query: str) -> int:
    """The first block that a query loads."""
    return int(query.partition("blocks > ")[2].split()[0])


def test_a_large_relation_is_loaded_in_pieces_with_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[str] = []
    progress: list[tuple[float, str]] = []
    monkeypatch.setattr(cache, "REPORT_S", 0.0)
    system = Memory()
    system.cached = {"16384": (292 << 20, 292 << 20), "16385": (8192, 8192)}
    scene = Scene(
        system=system,
        facts={},
        sql=big_tables(queries),
        report=lambda share, _, note: progress.append((round(share, 3), note)),
    )

    proofs = prewarm(scene, ["big", "small"])

    assert [loaded_from(query) for query in queries if "pg_prewarm(" in query] == [0, 32768, 0]
    assert [(proof.evidence["loaded"], proof.ok) for proof in proofs] == [(37376, True), (1, True)]
    assert progress == [
        (0.853, "loading big into memory"),
        (0.973, "loading big into memory"),
        (0.973, "loading small into memory"),
    ]


def test_a_cancel_ends_the_loading_of_a_large_relation() -> None:
    queries: list[str] = []

    def check() -> None:
        if any("pg_prewarm(" in query for query in queries):
            raise Cancelled("the run was cancelled")

    with pytest.raises(Cancelled):
        prewarm(Scene(system=Memory(), facts={}, sql=big_tables(queries), check=check), ["big"])

    assert sum("pg_prewarm(" in query for query in queries) == 1


def test_a_server_without_pg_prewarm_is_not_in_effect() -> None:
    with pytest.raises(NotApplied, match="a PostgreSQL without it"):
        prewarm(Scene(system=FakeSystem(), facts={}, sql=lambda query: None), ["t"])


def test_a_relation_is_all_of_its_segments() -> None:
    system = Memory()
    system.files.update({"/d/16384": "", "/d/16384.1": "", "/d/16384.2": ""})
    system.cached = {"16384": (8, 8), "16384.1": (8, 4), "16384.2": (8, 1), "163840": (8, 8)}

    assert in_memory(system, "/d/16384") == 13


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory of the checkout: /tmp may be in memory, which the kernel never drops."""
    VAR.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=VAR) as path:
        yield Path(path)


def test_the_page_cache_is_read_from_the_kernel_without_filling_it(on_disk: Path) -> None:
    file, size = on_disk / "file", 8 << 20
    file.write_bytes(b"x" * size)
    fd = os.open(file, os.O_RDWR)
    os.fsync(fd)
    written = resident(str(file))
    os.posix_fadvise(fd, 0, 4 << 20, os.POSIX_FADV_DONTNEED)
    dropped = resident(str(file))
    os.close(fd)

    assert written == (size, size)
    assert dropped == resident(str(file)) == (size, 4 << 20)
    assert System().in_page_cache(str(file)) == dropped


def test_an_empty_file_is_in_no_cache(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    assert resident(str(tmp_path / "empty")) == (0, 0)

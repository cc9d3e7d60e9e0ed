"""Numbers from /proc, and the zipapp that carries it all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents import build, cpulist
from agents.collectors import COLLECTORS
from agents.collectors.cpu import parse as parse_cpu
from agents.collectors.disk import Disk
from agents.system import System, parse_stat

from .fakes import FakeSystem


def test_cpu_shares_are_of_the_interval() -> None:
    system = FakeSystem({"/proc/stat": "cpu  100 0 100 800 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0\nintr 1\n"})
    collector = COLLECTORS["cpu"](system, Path("/"))
    collector.start()
    system.files["/proc/stat"] = "cpu  150 0 110 820 20 0 0 0\ncpu0 150 0 110 820 20 0 0 0\nintr 1\n"

    values = collector.sample()

    assert values["cpu0.busy"] == values["busy"] == 60.0
    assert (values["user"], values["system"], values["iowait"]) == (50.0, 10.0, 20.0)


def test_old_kernels_have_fewer_columns() -> None:
    assert parse_cpu("cpu 1 2 3 4\n") == {"cpu": (3, 3, 4, 0)}


def test_disk_rates_count_whole_disks_once(tmp_path: Path) -> None:
    def stats(reads: int) -> str:
        lines = [
            f"{n} 0 {name} {reads} 0 {reads * 16} 5 0 0 0 0 0 {reads} 0\n" for n, name in ((8, "sda"), (253, "dm-0"))
        ]
        return "".join(lines)

    system = FakeSystem({"/proc/diskstats": stats(0), "/sys/block/sda/size": "1", "/sys/block/dm-0/size": "1"})
    disk = Disk(system, tmp_path)
    disk.start()
    system.files["/proc/diskstats"], system.now = stats(500), 2.0

    values = disk.sample()

    assert (values["read_iops"], values["read_mb_s"], values["util"]) == (250.0, 2.048, 25.0)


@pytest.mark.parametrize("name", list(COLLECTORS))
def test_every_collector_describes_the_columns_that_it_yields_here(name: str, tmp_path: Path) -> None:
    collector = COLLECTORS[name](System(), tmp_path)
    collector.start()

    described = {column.split(".")[-1] for column in collector.columns}

    assert {column.split(".")[-1] for column in collector.sample()} <= described


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,5", [0, 1, 2, 3, 5]), ("0x6", [1, 2]), ("node:1", [4, 6]), ("7", [7]), ("", [])]
)
def test_cpu_lists(text: str, cpus: list[int]) -> None:
    assert cpulist.choose(text, [{"id": 1, "cpus": "4,6"}]) == cpus
    assert cpulist.parse(cpulist.render(cpus)) == cpus


def test_a_process_name_may_hold_brackets_and_spaces() -> None:
    fields = " ".join(["S", "1", "7", *["0"] * 8, "3", "4", *["0"] * 6, "99", *["0"] * 16, "2"])

    process = parse_stat(f"42 (a) b) {fields}")

    assert (process.pid, process.name, process.ticks, process.start, process.cpu) == (42, "a) b", 7, 99, 2)


def test_the_zipapp_is_the_same_bytes_wherever_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = build.build_zipapp(tmp_path / "a.pyz")
    copy = tmp_path / "elsewhere/agents"
    shutil.copytree(build.SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
    monkeypatch.setattr(build, "SOURCES", copy)

    assert build.build_zipapp(tmp_path / "b.pyz") == here
    assert (tmp_path / "a.pyz").read_bytes() == (tmp_path / "b.pyz").read_bytes()


def test_the_zipapp_tells_its_own_hash(tmp_path: Path) -> None:
    sha = build.build_zipapp(tmp_path / "agent.pyz")

    argv = [sys.executable, "-I", str(tmp_path / "agent.pyz"), "version"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=True)

    assert shown.stdout == f"protocol 1 agent {sha}\n"

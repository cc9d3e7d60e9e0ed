"""Samples of collectors from /proc, and the agent's zipapp."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents import build
from agents.collectors import COLLECTORS, NotAvailable, Subject
from agents.collectors.base import Rates, rounded
from agents.collectors.cpu import parse as parse_cpu
from agents.collectors.over_sql.round_trip import STATEMENTS, figures
from agents.collectors.processes import kind_of
from agents.host import cpulist
from agents.host.system import PAGE_KB, System, parse_stat
from tests.agents.fakes import FakeSystem, stat_line

CASES = Path(__file__).parents[1] / "cases/proc"


def test_cpu_shares_are_of_the_interval() -> None:
    system = FakeSystem({"/proc/stat": "cpu  100 0 100 800 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0\nintr 1\n"})
    collector = COLLECTORS["cpu"](system, Subject(Path("/")))
    collector.start()
    system.files["/proc/stat"] = "cpu  150 0 110 820 20 0 0 0\ncpu0 150 0 110 820 20 0 0 0\nintr 1\n"

    values = collector.sample()

    assert values["cpu0.busy"] == values["busy"] == 60.0
    assert (values["user"], values["system"], values["iowait"]) == (50.0, 10.0, 20.0)


def test_one_slow_statement_of_a_sample_is_its_maximum_and_not_its_95th_percentile() -> None:
    times = [float(ms) for ms in range(STATEMENTS, 0, -1)]

    assert figures(times) == {"p50_ms": 10.0, "p95_ms": 19.0, "max_ms": 20.0}
    assert figures([7.0]) == {"p50_ms": 7.0, "p95_ms": 7.0, "max_ms": 7.0}


def test_old_kernels_have_fewer_columns() -> None:
    assert parse_cpu("cpu 1 2 3 4\n") == {"cpu": (3, 3, 4, 0)}


@dataclass
class Recorded:
    """A machine of cases/proc: files before, and after some seconds."""

    case: dict[str, Any]
    system: FakeSystem

    def sample(self, name: str) -> dict[str, float]:
        """What a collector makes of it."""
        collector = COLLECTORS[name](self.system, Subject(Path("/nowhere"), postmaster=77))
        collector.start()
        self.system.files.update(joined(self.case["after"]))
        self.system.now += self.case["seconds"]
        return collector.sample()


def joined(files: dict[str, list[str]]) -> dict[str, str]:
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}


def recorded(kernel: str) -> Recorded:
    case = json.loads((CASES / f"{kernel}.json").read_text())
    disks = {f"/sys/block/{name}/size": "1" for name in case["block"]}
    return Recorded(case, FakeSystem({**joined(case["before"]), **disks}))


def cases_with(kind: str) -> list[tuple[str, str]]:
    """(kernel, collector) of all cases, of those that have values or of those that are unavailable."""
    cases = {path.stem: json.loads(path.read_text())[kind] for path in sorted(CASES.glob("*.json"))}
    return [(kernel, name) for kernel, names in cases.items() for name in names]


@pytest.mark.parametrize(("kernel", "name"), cases_with("values"))
def test_each_kernel_gives_the_recorded_values(kernel: str, name: str) -> None:
    machine = recorded(kernel)

    sample = machine.sample(name)

    expected = machine.case["values"][name]
    assert {column: sample.get(column) for column in expected} == pytest.approx(expected, rel=5e-5)  # five digits
    assert [column for column in sample if COLLECTORS[name].column(column) is None] == []


@pytest.mark.parametrize(("kernel", "name"), [case for case in cases_with("unavailable") if case[1] != "processes"])
def test_a_collector_without_its_files_is_not_available(kernel: str, name: str) -> None:
    with pytest.raises(NotAvailable):
        recorded(kernel).sample(name)


def test_without_postgresql_its_processes_are_not_available() -> None:
    with pytest.raises(NotAvailable, match="no PostgreSQL"):
        COLLECTORS["processes"](FakeSystem(), Subject(Path("/"))).start()


def test_a_control_group_shows_how_much_of_the_time_it_was_throttled() -> None:
    group = "/sys/fs/cgroup/run"
    files = {
        f"{group}/memory.current": "2097152\n",
        f"{group}/memory.events": "high 0\nmax 4\noom_kill 0\n",
        f"{group}/cpu.stat": "usage_usec 1000000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 100000\n",
        f"{group}/io.stat": "8:0 rbytes=1000000 wbytes=0 rios=10 wios=0\n8:16 \n",
    }
    system = FakeSystem(files)
    collector = COLLECTORS["cgroup"](system, Subject(Path("/"), group=group))
    collector.start()
    system.sleep(2)
    system.files |= {
        f"{group}/memory.events": "high 0\nmax 10\noom_kill 0\n",
        f"{group}/cpu.stat": "usage_usec 2000000\nnr_periods 30\nnr_throttled 17\nthrottled_usec 900000\n",
        f"{group}/io.stat": "8:0 rbytes=5000000 wbytes=2000000 rios=20 wios=8\n8:16 rbytes=2000000 wios=0 rios=2\n",
    }

    sample = collector.sample()

    assert sample == {
        "memory": 2048.0,
        "cpu": 50.0,
        "throttled": 75.0,
        "waiting": 40.0,
        "max": 3.0,
        "high": 0.0,
        "oom_kill": 0.0,
        "read_mb_s": 3.0,
        "write_mb_s": 1.0,
        "reads": 6.0,
        "writes": 4.0,
    }
    assert collector.finish()["cpu.stat"]["nr_throttled"] == 17


def test_a_run_without_limits_has_no_control_group() -> None:
    with pytest.raises(NotAvailable, match="no control group"):
        COLLECTORS["cgroup"](FakeSystem(), Subject(Path("/"))).start()


@pytest.mark.parametrize("name", [name for name, each in COLLECTORS.items() if not each.needs_postgres])
def test_every_collector_declares_its_columns_and_begins_with_gauges(name: str, tmp_path: Path) -> None:
    collector = COLLECTORS[name](System(), Subject(tmp_path))
    try:
        collector.start()
    except NotAvailable as reason:
        assert str(reason)
        return

    first, second = collector.gauges(), collector.sample()

    assert [column for column in second if collector.column(column) is None] == []
    assert all((column := collector.column(each)) and column.gauge for each in first)


def server(ticks: int, written: int) -> dict[str, str]:
    """A postmaster 77 with a checkpointer and one backend that has used so much."""
    files = {"/proc/77/task/77/children": "78 79", "/proc/77/stat": stat_line(77, "postgres")}
    files["/proc/77/io"] = f"wchar: {written * 100}\n"  # of children that ended, as the kernel has it
    for pid, title in ((78, "postgres: main: checkpointer "), (79, "postgres: main: bench db [local] UPDATE")):
        files[f"/proc/{pid}/stat"] = stat_line(pid, "postgres", parent=77, ticks=ticks * (pid == 79), start=100 + pid)
        files[f"/proc/{pid}/io"] = f"rchar: 0\nwchar: {written * (pid - 77)}\nread_bytes: 0\nwrite_bytes: 0\n"
        files[f"/proc/{pid}/statm"] = "9000 1000 900 1 0 1 0"
        files[f"/proc/{pid}/cmdline"] = title + "\0"
    return files


def test_processes_are_summed_by_kind_and_those_born_meanwhile_count_whole() -> None:
    system = FakeSystem(server(ticks=100, written=0))
    collector = COLLECTORS["processes"](system, Subject(Path("/"), postmaster=77))
    collector.start()
    system.files.update(server(ticks=150, written=3_000_000))
    system.files["/proc/77/task/77/children"] = "78 79 80"
    system.files["/proc/80/stat"] = stat_line(80, "postgres", parent=77, ticks=10, start=900)
    system.now = 2.0

    sample = collector.sample()

    assert (sample["checkpointer.wchar_mb_s"], sample["client backends.wchar_mb_s"], sample["wchar_mb_s"]) == (
        1.5,
        3,
        4.5,
    )
    assert (sample["client backends.cpu"], sample["others.cpu"], sample["cpu"]) == (25.0, 5.0, 30.0)
    assert (sample["count"], sample["rss"], sample["unshared"]) == (4, 2000 * PAGE_KB, 200 * PAGE_KB)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("postgres: checkpointer \0", "checkpointer"),
        ("postgres: checkpointer process   ", "checkpointer"),
        ("postgres: 16/main: walwriter ", "walwriter"),
        ("postgres: autovacuum launcher ", "others"),
        ("postgres: io worker 2", "io worker"),
        ("postgres: postgres postgres [local] SELECT", "client backends"),
        ("postgres: checkpoint_user db 10.0.0.1(5000) idle", "client backends"),
    ],
)
def test_a_process_is_classified_by_its_title(title: str, kind: str) -> None:
    assert kind_of(title) == kind


@pytest.mark.parametrize(
    ("value", "shown"), [(1234567.8, 1234600.0), (12.34567, 12.346), (0.012345, 0.0123), (3.0, 3.0)]
)
def test_rates_have_no_more_digits_than_their_clock_carries(value: float, shown: float) -> None:
    assert rounded(value) == shown


def test_rates_are_per_second_from_the_second_sample_on_and_never_negative() -> None:
    rates = Rates()
    rates.of({"a": 10, "b": 50}, 1.0)

    assert rates.of({"a": 30, "b": 0, "new": 7}, 3.0) == {"a": 10.0, "b": 0.0}
    assert rates.of({"a": 30, "b": 4, "new": 8}, 4.0) == {"a": 0.0, "b": 4.0, "new": 1.0}


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


def test_threads_of_the_kernel_are_known_by_their_flag() -> None:
    fields = " ".join(["S", "2", "0", "0", "0", "-1", str(0x04208060), *["0"] * 30, "1"])

    assert parse_stat(f"34 (kworker/0:1H) {fields}").is_kernel
    assert not System().process(os.getpid()).is_kernel  # type: ignore[union-attr]  # this process exists


def test_the_processes_of_a_directory_work_exactly_there(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    children = [subprocess.Popen(["sleep", "60"], cwd=directory) for directory in (tmp_path, inside)]

    there = [process.pid for process in System().processes_in(str(tmp_path))]
    for child in children:
        child.kill()
        child.wait()

    assert there == [children[0].pid]
    assert System().processes_in(str(tmp_path)) == []


def test_each_build_of_the_zipapp_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = build.zipapp()
    copy = tmp_path / "elsewhere/agents"
    shutil.copytree(build.SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
    monkeypatch.setattr(build, "SOURCES", copy)

    assert build.zipapp() == here


def test_the_zipapp_reports_its_own_hash(tmp_path: Path) -> None:
    sha = build.build_zipapp(tmp_path / "agent.pyz")

    argv = [sys.executable, "-I", str(tmp_path / "agent.pyz"), "version"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)

    assert shown.stdout.startswith(f"protocol 1 agent {sha} version ")

"""The control group of a run: facts, proofs, creation and removal, on a simulated machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.errors import NotApplied
from agents.host import cgroups
from agents.records.journal import Journal
from agents.records.spool import Spool
from agents.recovery import control_group
from agents.settings import SETTINGS, Scene
from tests.agents.fakes import FakeSystem, stat_line

FACTS = json.loads((Path(__file__).parents[1] / "cases/facts.json").read_text())
V2 = "30 29 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
GROUP = "/sys/fs/cgroup/proving-ground-1/server"
CGROUP = SETTINGS["cgroup"]


class Kernel(FakeSystem):
    """Directories of control groups; writing a controller changes the list of active ones."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__(files)
        self.refused: set[str] = set()
        self.killed: list[int] = []

    def kill(self, pid: int, number: int) -> None:
        self.killed.append(pid)

    def make_directory(self, path: str) -> None:
        for name in ("cgroup.procs", "memory.max", "cpu.max", "io.max"):
            self.files[f"{path}/{name}"] = ""

    def remove_directory(self, path: str) -> None:
        self.files = {name: text for name, text in self.files.items() if not name.startswith(f"{path}/")}

    def write(self, path: str, text: str) -> None:
        if path in self.refused:
            raise OSError(16, "Device or resource busy", path)
        if path.endswith("subtree_control"):
            on = set(self.files[path].split())
            for word in text.split():
                on = on | {word[1:]} if word[0] == "+" else on - {word[1:]}
            text = " ".join(sorted(on))
        super().write(path, text)


class PageCache(FakeSystem):
    """Records the files that were dropped from it."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[str] = []

    def sync(self) -> None:
        pass

    def drop_from_page_cache(self, path: str) -> None:
        self.dropped.append(path)

    def in_page_cache(self, path: str) -> tuple[int, int]:
        return 8192, 0


def container(**files: str) -> Kernel:
    """A machine without systemd, at the true root of its groups."""
    own = {"cgroup.controllers": "cpu io memory pids", "cgroup.subtree_control": "cpu", "cgroup.procs": "1"}
    rows = {f"/sys/fs/cgroup/{name}": text for name, text in {**own, **files}.items()}
    return Kernel({"/proc/self/mountinfo": V2, **rows})


# Facts


def test_all_controllers_can_be_used_at_the_true_root() -> None:
    about = cgroups.fact(container())

    assert (about["version"], about["controllers"], about["problem"]) == ("2", ["cpu", "io", "memory"], "")


def test_in_a_group_of_a_container_only_those_that_are_on_can_be_used() -> None:
    assert cgroups.fact(container(**{"cgroup.type": "domain"}))["controllers"] == ["cpu"]


def test_controllers_of_version_1_are_named() -> None:
    mounts = (
        "30 29 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n"
        "31 29 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 29 0:29 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
    )

    about = cgroups.fact(FakeSystem({"/proc/self/mountinfo": mounts}))

    assert (about["version"], about["controllers"], about["legacy"]) == ("hybrid", [], ["io", "memory"])


@pytest.mark.parametrize(
    ("mounts", "version", "problem"),
    [
        ("", "none", "this host has no control groups; version 2 is needed"),
        (
            "31 29 0:28 / /c/memory rw - cgroup cgroup rw,memory\n",
            "1",
            "this host has control groups of version 1 only; version 2 is needed",
        ),
        (V2.replace("rw,", "ro,"), "2", "/sys/fs/cgroup is mounted read-only, as in most containers"),
    ],
)
def test_a_host_says_why_a_run_can_use_no_group(mounts: str, version: str, problem: str) -> None:
    about = cgroups.fact(FakeSystem({"/proc/self/mountinfo": mounts}))

    assert (about["version"], about["problem"], about["controllers"]) == (version, problem, [])


# Proofs


def scene(backend: str = "/proving-ground-1/server", client: str = "/user.slice", **files: str) -> Scene:
    """A postmaster (pid 10) in the group, with a backend (11); a load generator (20)."""
    processes = {
        "/proc/10/task/10/children": "11",
        "/proc/11/task/11/children": "",
        "/proc/20/task/20/children": "",
        "/proc/10/stat": stat_line(10, "postgres"),
        "/proc/11/stat": stat_line(11, "postgres", parent=10),
        "/proc/20/stat": stat_line(20, "pgbench"),
        "/proc/10/cgroup": "0::/proving-ground-1/server\n",
        "/proc/11/cgroup": f"0::{backend}\n",
        "/proc/20/cgroup": f"0::{client}\n",
    }
    own = {f"{GROUP}/{name}": text for name, text in files.items()}
    system = FakeSystem({"/proc/self/mountinfo": V2, **processes, **own})
    return Scene(system=system, facts=FACTS, postmaster=10, client=20, group=GROUP)


def test_every_process_of_postgresql_is_in_the_group_and_the_load_is_not() -> None:
    inside, outside = CGROUP.verify(scene(), {"cpu_max": 1}, "during")

    assert inside.ok and inside.found == "/proving-ground-1/server" and inside.evidence["of"] == 2
    assert outside.ok and outside.found == 0


def test_a_backend_that_left_the_group_is_a_failure() -> None:
    inside, _ = CGROUP.verify(scene(backend="/system.slice"), {"cpu_max": 1}, "during")

    assert not inside.ok and inside.found == "/proving-ground-1/server /system.slice"


def test_a_load_generator_in_the_group_is_a_failure() -> None:
    _, outside = CGROUP.verify(scene(client="/proving-ground-1/server"), {"cpu_max": 1}, "during")

    assert not outside.ok and outside.found == 1


@pytest.mark.parametrize(
    ("file", "written", "shown", "ok"),
    [
        ("memory.max", "268435456", "268435456\n", True),
        ("memory.max", "268435456", "max\n", False),
        ("cpu.max", "150000 100000", "150000 100000\n", True),
        ("cpu.max", "150000 100000", "max 100000\n", False),
        ("io.max", "8:0 wbps=1048576", "8:16 rbps=1\n8:0 rbps=max wbps=1048576 riops=max wiops=max\n", True),
        ("io.max", "8:0 wbps=1048576", "8:0 rbps=max wbps=max riops=7 wiops=max\n", False),
        ("io.max", "8:0 wbps=1048576", "", False),
    ],
)
def test_each_limit_is_read_from_the_kernel_s_file(file: str, written: str, shown: str, ok: bool) -> None:
    at = scene(**{file: shown})
    at.limits = [(file, written)]

    proof = CGROUP.verify(at, {}, "before")[-1]

    assert (proof.ok, proof.wanted) == (ok, written)


def test_cpus_that_a_group_above_withholds_are_a_failure() -> None:
    at = scene(**{"cpuset.cpus": "0-1\n", "cpuset.cpus.effective": "0\n"})
    at.limits = [("cpuset.cpus", "0-1")]

    proofs = {proof.subject: proof for proof in CGROUP.verify(at, {"cpuset_cpus": "0-1"}, "before")}

    assert proofs["cpuset.cpus"].ok and not proofs["cpuset.cpus.effective"].ok


def test_the_last_proof_has_the_counters_of_the_group() -> None:
    at = scene(
        **{
            "memory.max": "268435456\n",
            "memory.peak": "200000000\n",
            "memory.events": "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n",
            "cpu.stat": "usage_usec 7\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5\n",
            "io.stat": "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n254:0 \n",
        }
    )
    at.limits = [("memory.max", "268435456")]

    figures = CGROUP.verify(at, {"memory_max": "256MB"}, "after")[-1].evidence["figures"]

    assert figures["memory.peak"] == 200_000_000 and figures["memory.events"]["max"] == 12
    assert figures["cpu.stat"]["nr_throttled"] == 3 and figures["io.stat"]["8:0"]["wbytes"] == 20


def test_memory_is_written_in_whole_pages_and_a_device_by_its_number() -> None:
    at = Scene(system=FakeSystem({"/sys/block/sda/dev": "8:0\n"}), facts=FACTS)
    requested = {"memory_max": "300001kB", "io_max": {"sda": {"riops": 100}}}

    plan = CGROUP.resolve(at, CGROUP.plan(FACTS, requested), requested)

    assert plan.limits == [("memory.max", str(300_000 * 1024)), ("io.max", "8:0 riops=100")]


def test_less_memory_than_the_server_shares_is_refused_before_its_start() -> None:
    parameters = {"huge_pages": "try", "shared_memory_size": "400"}
    at = Scene(system=FakeSystem(), facts=FACTS, major=18, parameter=lambda name: parameters[name])
    requested = {"memory_max": "256MB"}

    with pytest.raises(NotApplied, match="at least 432MB, as this PostgreSQL has 400MB of shared memory"):
        CGROUP.resolve(at, CGROUP.plan(FACTS, requested), requested)


# The group itself, without systemd


def journal(path: Path, system: FakeSystem) -> Journal:
    spool = Spool(path / "spool", system)
    spool.prepare()
    return Journal(spool.create({"run": "run-1", "epoch": 1, "digest": "", "spec": {}}), system)


def test_a_group_is_removed_and_a_controller_that_was_switched_on_for_it_is_off_again(tmp_path: Path) -> None:
    system = container(**{"old/cgroup.procs": ""})
    records = journal(tmp_path, system)

    group = control_group.make(system, records, tmp_path, [("memory.max", "1048576"), ("cpu.max", "50000 100000")])

    assert group == "/sys/fs/cgroup/proving-ground-run-1"
    assert system.files[f"{group}/memory.max"] == "1048576"
    assert system.files["/sys/fs/cgroup/cgroup.subtree_control"] == "cpu memory"
    assert control_group.remove(system, records) == []
    assert not system.exists(group) and system.files["/sys/fs/cgroup/cgroup.subtree_control"] == "cpu"
    assert [proof["ok"] for proof in control_group.proofs(records)] == [True]


def test_a_limit_on_io_switches_memory_on_because_writes_from_the_page_cache_need_it(tmp_path: Path) -> None:
    system = container()

    control_group.make(system, journal(tmp_path, system), tmp_path, [("io.max", "8:0 wbps=1048576")])

    assert system.files["/sys/fs/cgroup/cgroup.subtree_control"] == "cpu io memory"


@pytest.mark.parametrize(
    ("requested", "dropped"),
    [({"memory_max": "1GB"}, 1), ({"io_max": {"sda": {"wbps": "1MB"}}}, 1), ({"memory_max": "max", "cpu_max": 1}, 0)],
)
def test_limits_on_memory_or_io_drop_the_data_that_another_group_has_read(
    tmp_path: Path, requested: dict[str, object], dropped: int
) -> None:
    files = [tmp_path / "base/16384", tmp_path / "pg_wal/000000010000000000000001"]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(bytes(8192))
    system = PageCache()

    proofs = CGROUP.act(Scene(system=system, facts=FACTS, pgdata=str(tmp_path)), requested, "stopped")

    assert system.dropped == [str(file) for file in files] * dropped
    assert [proof.ok for proof in proofs] == [True] * dropped


def test_a_limit_that_the_kernel_refuses_is_not_in_effect(tmp_path: Path) -> None:
    system = container()
    system.refused.add("/sys/fs/cgroup/proving-ground-run-1/memory.max")

    with pytest.raises(NotApplied, match="refused by the kernel: Device or resource busy"):
        control_group.make(system, journal(tmp_path, system), tmp_path, [("memory.max", "1048576")])


def test_a_group_that_exists_is_neither_used_nor_on_record(tmp_path: Path) -> None:
    system = container(**{"proving-ground-run-1/cgroup.procs": "4711"})
    records = journal(tmp_path, system)

    with pytest.raises(NotApplied, match="a new group /sys/fs/cgroup/proving-ground-run-1, but is one that exists"):
        control_group.make(system, records, tmp_path, [("cpu.max", "50000 100000")])

    assert control_group.remove(system, records) == [] and system.exists("/sys/fs/cgroup/proving-ground-run-1")


def test_processes_of_a_group_are_killed_but_not_pid_0_of_another_namespace(tmp_path: Path) -> None:
    system = container()
    records = journal(tmp_path, system)
    group = control_group.make(system, records, tmp_path, [("cpu.max", "50000 100000")])
    system.files[f"{group}/cgroup.procs"] = "0\n4711\n"

    control_group.remove(system, records)

    assert system.killed == [4711]


def test_a_controller_that_a_newer_group_may_use_stays_on(tmp_path: Path) -> None:
    system = container(**{"old/cgroup.procs": ""})
    records = journal(tmp_path, system)
    control_group.make(system, records, tmp_path, [("memory.max", "1048576")])
    system.make_directory("/sys/fs/cgroup/new")

    assert control_group.remove(system, records) == []

    assert system.files["/sys/fs/cgroup/cgroup.subtree_control"] == "cpu memory"


def test_a_group_is_not_called_removed_while_version_2_is_not_mounted(tmp_path: Path) -> None:
    system = container()
    records = journal(tmp_path, system)
    group = control_group.make(system, records, tmp_path, [("cpu.max", "50000 100000")])
    system.files = {}

    (problem,) = control_group.remove(system, records)

    assert problem == f"whether the control group {group} exists is unknown: version 2 is no longer mounted"
    assert [proof["ok"] for proof in control_group.proofs(records)] == [False]


def test_a_group_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    system = container()
    records = journal(tmp_path, system)
    group = control_group.make(system, records, tmp_path, [("cpu.max", "50000 100000")])
    system.remove_directory = lambda path: None  # type: ignore[method-assign]

    assert control_group.remove(system, records) == [f"the control group {group} still exists"]
    assert [proof["found"] for proof in control_group.proofs(records)] == ["still there"]

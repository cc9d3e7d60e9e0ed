"""PostgreSQL in a control group: limits proven by the kernel's files and by their effect, and nothing left of a run
that is killed at any boundary of its journal."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings
from tests.lab.kills import check, kill_runs
from tests.lab.machines.machine import Machine
from tests.lab.settings.placement import runs_by_level
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

# Hides from the agent that systemd is PID 1.
WITHOUT_SYSTEMD = "unshare --mount sh -c 'mount -t tmpfs none /run/systemd && exec \"$@\"' sh "
LIMIT = 64 << 20
SCAN = "select sum(abalance) from pgbench_accounts"
BUFFERS = {"settings.postgresql.shared_buffers": "16MB"}
ALL = {"memory_max": "192MB", "memory_high": "180MB", "cpu_max": 1.5, "cpuset_cpus": "0-1", "cpuset_mems": "0"}


def groups(vm: Machine) -> str:
    """Control groups of runs, and the controllers that are switched on."""
    find = "find /sys/fs/cgroup -type d -name 'proving-ground-*.scope' -o -type d -name 'proving-ground-????????-*'"
    return vm.shell(f"{find}; cat /sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/system.slice/*.subtree_control")


def proofs(run: Run, phase: str) -> dict[str, Any]:
    """Of the control group in a phase, by subject; the newest of each."""
    events = run.events.filter(kind="proof", data__setting="cgroup", data__phase=phase).order_by("seq")
    return {event.data["subject"]: event.data for event in events}


def figures(run: Run) -> dict[str, Any]:
    """The counters of the group, from the last proof of the run."""
    evidence = [proof["evidence"].get("figures") for proof in proofs(run, "after").values()]
    return dict(next(each for each in reversed(evidence) if each))


@pytest.mark.proves("cgroup", where="lab")
def test_memory_and_cpu_time_are_limited_for_postgresql_alone(supervised: Host, admin: User, vm: Machine) -> None:
    before, tree = read_settings(vm), groups(vm)
    levels = [
        {"label": label, "set": {"settings.cgroup.memory_max": memory, "settings.cgroup.cpu_max": cpu, **BUFFERS}}
        for label, memory, cpu in (("whole", "max", "max"), ("small", "64MB", "0.3"))
    ]
    factor = {"name": "machine", "levels": levels}

    load = campaigns.PGBENCH | {"scale": 6, "time_s": 15}
    steps = [
        {"name": "scan", "role": "warm", "kind": "sql", "options": {"statements": SCAN}},
        {"name": "measure", "role": "measure", "kind": "pgbench", "options": load},
    ]

    runs = runs_by_level(campaigns.start(supervised, admin, factor, steps=steps))

    whole, small = runs["whole"], runs["small"]
    for run, memory, cpu in ((whole, "max", "max 100000"), (small, str(LIMIT), "30000 100000")):
        for phase in ("before", "after"):
            shown = proofs(run, phase)
            assert (shown["memory.max"]["found"], shown["cpu.max"]["found"]) == (memory, cpu)
        inside = proofs(run, "during")["control group of every process"]
        assert inside["ok"] and len(inside["evidence"]["processes"]) > 2
        assert inside["found"] == f"/system.slice/proving-ground-{run.pk}.scope/server"
        assert proofs(run, "during")["processes of the load generator in the group"]["found"] == 0
        (removed,) = proofs(run, "restored").values()
        assert removed["found"] == "removed"
    # The table of 78 MB does not fit, so the kernel reclaimed pages. Most of the time the group was throttled.
    assert figures(small)["memory.events"]["max"] > 0
    assert figures(small)["cpu.stat"]["nr_throttled"] > 20 and figures(whole)["cpu.stat"]["nr_throttled"] == 0
    assert small.measurements.get(name="tps").value < whole.measurements.get(name="tps").value * 0.7
    assert (differences(before, read_settings(vm)), groups(vm)) == ({}, tree)


def test_a_host_reports_the_controllers_that_a_run_can_use(host: Host) -> None:
    about = host.facts["cgroup"]

    assert (about["version"], about["manager"], about["problem"]) == ("2", "systemd", "")
    assert about["controllers"] == ["cpu", "cpuset", "io", "memory"]


@pytest.mark.proves("cgroup", where="lab")
def test_a_run_killed_at_any_boundary_leaves_no_group_and_no_process(
    vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = kill_runs(vm, {"cgroup": {**ALL, "io_max": {"data": {"wbps": "50MB"}}}}, every=1)

    check(answer, capsys)
    assert any("/server/io.max" in boundary for boundary in answer["trail"])


@pytest.mark.proves("cgroup", where="lab")
def test_without_systemd_the_group_is_a_directory_and_is_removed_as_well(
    vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = kill_runs(vm, {"cgroup": ALL}, every=1, prefix=WITHOUT_SYSTEMD)

    check(answer, capsys)
    assert any("cgroup.subtree_control" in boundary for boundary in answer["trail"])
    assert not any(".scope" in boundary for boundary in answer["trail"])

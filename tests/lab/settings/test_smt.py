"""SMT switched off and on at run time, on a machine whose cores have two threads."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from common.errors import PlanError
from tests.lab.conftest import differences, read_settings
from tests.lab.kills import check, kill_runs
from tests.lab.machines.machine import Machine
from tests.lab.settings.placement import measured, proofs
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.topology("two-threads"), pytest.mark.django_db(transaction=True)]

CPUS = "/sys/devices/system/cpu"
OFF = {"settings.smt.control": "off"}


def cpus(vm: Machine) -> str:
    return vm.shell(f"cat {CPUS}/smt/control {CPUS}/smt/active {CPUS}/online /proc/irq/*/smp_affinity_list")


@pytest.mark.proves("smt", where="lab")
def test_smt_is_off_for_a_level_and_on_again_after_it(host: Host, admin: User, vm: Machine) -> None:
    assert host.facts["cpus"]["smt"] == "on"
    before, threads = read_settings(vm), cpus(vm)
    levels: dict[str, dict[str, Any]] = {"on": {"settings.smt.control": "on"}, "off": OFF}

    runs = measured(host, admin, levels, scale=1, clients=1, jobs=1, time_s=15)

    for level, active, online in (("on", "1", None), ("off", "0", "0,2")):
        observed = {
            subject: [proof["found"] for proof in proofs(runs[level], subject, "smt") if proof["phase"] != "restored"]
            for subject in (f"{CPUS}/smt/control", "smt/active", "CPUs online")
        }
        assert observed[f"{CPUS}/smt/control"] == [level, level]
        assert observed["smt/active"] == [active, active]
        assert observed["CPUs online"] == ([online, online] if online else [])
    assert (differences(before, read_settings(vm)), cpus(vm)) == ({}, threads)


def test_a_list_of_cpus_that_names_a_sibling_is_refused_before_the_run(host: Host, admin: User) -> None:
    factor = {"name": "threads", "levels": [{"label": "off", "set": {**OFF, "settings.cpu_affinity.server": "1"}}]}

    with pytest.raises(PlanError, match=r"CPU 1 goes offline with smt\.control off"):
        campaigns.start(host, admin, factor)


@pytest.mark.proves("smt", where="lab")
def test_a_run_killed_at_any_boundary_leaves_all_threads_online(
    vm: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = cpus(vm)

    answer = kill_runs(vm, {"smt": {"control": "off"}}, every=1, bin_dir="")

    check(answer, capsys)
    assert cpus(vm) == threads

"""Debian's 15/main under systemd: restarted with a drop-in file, and restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns.models import Run
from apps.hosts import contact
from apps.hosts.models import Host
from apps.hosts.usage import cluster_consents
from common.errors import PlanError
from tests.lab import guest_cluster
from tests.lab.conftest import differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

DATA = "/var/lib/postgresql/15/main"
UNIT = "postgresql@15-main.service"
PSQL = "sudo -u postgres psql -XAtc"


@pytest.fixture
def theirs(host: Host, vm: Machine, admin: User) -> Iterator[Host]:
    """The host with its running cluster, which includes the agent's file and has the consent to be measured."""
    guest_cluster.prepare(vm)
    vm.shell(f"sudo systemctl restart {UNIT}", limit_s=300)
    contact.check_host(host)
    cluster_consents.allow(host, DATA, "measure", by=admin)
    yield host
    vm.shell(f"sudo systemctl stop {UNIT}", limit_s=300)


def postmaster_state(vm: Machine) -> dict[str, Any]:
    """CPUs, memory policy and parameters of the postmaster, and its unit in systemd."""
    pid = vm.shell(f"sudo head -n 1 {DATA}/postmaster.pid").strip()
    return {
        "cpus": vm.shell(f"grep Cpus_allowed_list /proc/{pid}/status"),
        "policies": vm.shell(f"sudo cut -d' ' -f2 /proc/{pid}/numa_maps | sort -u"),
        "pg_settings": vm.shell(f"{PSQL} 'select name, setting, source, sourcefile, pending_restart from pg_settings'"),
        "databases": vm.shell(f"{PSQL} 'select datname from pg_database order by 1'"),
        "unit": vm.shell(f"systemctl show -p CPUAffinity -p NUMAPolicy -p NUMAMask -p DropInPaths {UNIT}"),
        "drop-ins": vm.shell("ls /run/systemd/system"),
    }


def run_on(host: Host, by: User, **settings: Any) -> Run:
    level = {"label": "one", "set": {f"settings.{path}": value for path, value in settings.items()}}
    target = {"data_dir": DATA}
    campaign = campaigns.start(host, by, {"name": "what", "levels": [level]}, target=target, time_s=3)
    campaigns.drive(lambda: Run.objects.get(campaign=campaign).state == Run.State.ENDED, timeout_s=400)
    return campaign.runs.get()


@pytest.mark.proves("cpu_affinity", where="lab")
@pytest.mark.proves("numa", where="lab")
@pytest.mark.proves("postgresql", where="lab")
def test_a_cluster_is_restarted_as_requested_and_restored(theirs: Host, admin: User, vm: Machine) -> None:
    cluster_consents.allow(theirs, DATA, "restart", by=admin)
    before, settings = postmaster_state(vm), read_settings(vm)

    requested = {"cpu_affinity.server": "node:1", "numa.policy": "interleave", "postgresql.shared_buffers": "64MB"}
    run = run_on(theirs, admin, **requested)

    assert run.outcome == "ok", run.error
    proofs = [event.data for event in run.events.filter(kind="proof")]
    assert all(proof["ok"] for proof in proofs)
    proven = {(proof["setting"], proof["phase"], proof["subject"]): proof["found"] for proof in proofs}
    assert proven["cpu_affinity", "before", "server: postmaster"] == "2-3"
    assert any("interleave:0-1" in str(value) for (name, *_), value in proven.items() if name == "numa")
    assert proven["postgresql", "after", "shared_buffers"] == "64MB"
    assert postmaster_state(vm) == before and differences(settings, read_settings(vm)) == {}


def test_a_cluster_is_not_restarted_without_consent_or_under_clients(theirs: Host, admin: User, vm: Machine) -> None:
    with pytest.raises(PlanError, match="but no admin has allowed it"):
        run_on(theirs, admin, **{"postgresql.shared_buffers": "64MB"})
    cluster_consents.allow(theirs, DATA, "restart", by=admin)
    shop = vm.follow("PGAPPNAME=shop sudo -E -u postgres psql -Xc 'select pg_sleep(600)'")
    try:
        connected = f"{PSQL} \"select 'there' from pg_stat_activity where application_name = 'shop'\""
        wait(lambda: "there" in vm.shell(connected))
        pid = vm.shell(f"sudo head -n 1 {DATA}/postmaster.pid")

        run = run_on(theirs, admin, **{"postgresql.shared_buffers": "64MB"})

        assert run.outcome == "failed" and "shop (postgres) from this host: 1" in run.error["message"]
        assert vm.shell(f"sudo head -n 1 {DATA}/postmaster.pid") == pid
    finally:
        shop.kill()
        shop.wait()

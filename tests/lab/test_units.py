"""Under systemd, a run outlives logins, and the host is restored after a kill without a contact."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns.execution import claims
from apps.campaigns.models import Run
from apps.hosts import services
from apps.hosts.access import ssh
from apps.hosts.models import Host
from common.errors import PlanError
from tests.lab.conftest import BASE, differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

UNITS = "systemctl list-unit-files 'proving-ground*' --no-legend --plain"


def state_of(vm: Machine, run: Any) -> dict[str, Any]:
    """The newest state on record, read without the agent."""
    lines = vm.shell(f"sudo cat {BASE}/spool/jobs/{run}/state.jsonl", check=False).splitlines()
    return dict(json.loads(lines[-1])) if lines else {}


def measuring(host: Host, admin: User, vm: Machine, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Run:
    """A run that measures, without a connection."""
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    run = campaigns.start(host, admin, time_s=120, **options).runs.get()
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state == "RUNNING", timeout_s=200)
    return Run.objects.get(pk=run.pk)


def test_a_run_goes_through_its_unit_and_ends_well(supervised: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)

    run = campaigns.finish(campaigns.start(supervised, admin, time_s=3)).runs.get()

    assert run.outcome == "ok", run.error
    wait(lambda: "Deactivated successfully" in vm.shell(f"sudo journalctl -u proving-ground-run@{run.pk}.service"))
    assert differences(before, read_settings(vm)) == {}


def test_a_killed_agent_is_restored_at_once_without_a_contact(
    supervised: Host, admin: User, vm: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measuring(supervised, admin, vm, monkeypatch)
    pid = state_of(vm, run.pk)["pid"]

    began = time.monotonic()
    vm.shell(f"sudo kill -KILL {pid}")
    wait(lambda: state_of(vm, run.pk)["state"] == "SEALED", limit_s=50)

    assert time.monotonic() - began < 50  # the timer would take up to a minute
    assert vm.shell("pgrep -c postgres", check=False).strip() == "0"
    campaigns.finish(run.campaign)
    assert Run.objects.get(pk=run.pk).outcome == "interrupted"


def test_a_run_continues_after_the_login_that_started_it(
    supervised: Host, admin: User, vm: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measuring(supervised, admin, vm, monkeypatch)
    pid = state_of(vm, run.pk)["pid"]

    vm.shell(f"sudo loginctl kill-user --signal=KILL {supervised.user}", check=False)
    vm.shell("sudo systemctl restart ssh", check=False)

    assert vm.shell(f"ps -o pid= -p {pid}").split() == [str(pid)]
    assert "system.slice" in vm.shell(f"cat /proc/{pid}/cgroup")
    with pytest.raises(PlanError, match="is active"):
        services.uninstall_units(supervised, by=admin)
    campaigns.services.cancel_run(run, by=admin)
    campaigns.finish(run.campaign)


def test_a_unit_that_does_not_come_up_says_why(supervised: Host, admin: User, vm: Machine) -> None:
    unit = "/etc/systemd/system/proving-ground-run@.service.d"
    vm.shell(
        f"sudo mkdir {unit} && printf '[Service]\\nExecStart=\\nExecStart=/nonexistent\\n' | sudo tee {unit}/x.conf"
    )
    vm.shell("sudo systemctl daemon-reload")
    run = campaigns.start(supervised, admin, time_s=3).runs.get()
    try:
        campaigns.step()
    finally:
        vm.shell(f"sudo rm -r {unit}; sudo systemctl daemon-reload")

    run.refresh_from_db()
    assert "did not start the run" in run.error["message"]
    assert vm.shell(f"sudo ls {BASE}/spool/jobs").strip() == ""
    assert campaigns.finish(run.campaign).runs.get().outcome == "ok"


def test_a_newer_agent_takes_over_the_units(supervised: Host, vm: Machine) -> None:
    vm.shell("sudo sed -i 's/^# agent .*/# agent of an earlier version/' /etc/systemd/system/proving-ground-*")
    vm.shell(f"echo old | sudo tee {BASE}/spool/agent.pyz")

    with ssh.Link(supervised) as link:
        units = link.hello["units"]

    sha256 = vm.shell(f"sudo sha256sum {BASE}/spool/agent.pyz").split()[0]
    assert (units, sha256) == ("current", ssh.agent_zipapp()[0])


def test_units_are_managed_from_the_host_s_own_shell(host: Host, vm: Machine) -> None:
    agent = f"sudo python3 -I {BASE}/spool/agent/{host.agent_digest}.pyz"

    assert "written /etc/systemd/system/proving-ground-run@.service" in vm.shell(
        f"{agent} install --spool {BASE}/spool"
    )
    assert "systemd units: current" in vm.shell(f"{agent} status --spool {BASE}/spool")
    assert vm.shell(f"{agent} guard --spool {BASE}/spool") == "nothing to restore\n"
    assert len(vm.shell(f"{agent} uninstall --spool {BASE}/spool").splitlines()) == 5
    assert vm.shell(f"{agent} uninstall --spool {BASE}/spool") == "nothing to remove\n"


def test_uninstalling_leaves_nothing_behind(supervised: Host, admin: User, vm: Machine) -> None:
    assert len(vm.shell(UNITS).splitlines()) == 4

    services.uninstall_units(supervised, by=admin)

    assert vm.shell(UNITS, check=False) == ""
    assert vm.shell(f"sudo find /etc/systemd /run/systemd {BASE}/spool/agent.pyz -name '*proving*'", check=False) == ""
    supervised.refresh_from_db()
    assert (supervised.supervisor, supervised.units) == ("detached", "absent")

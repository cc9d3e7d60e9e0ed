"""Restarts of a real kernel: the run continues by itself, or the host is restored."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from agents.wire.protocol import digest
from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.steps import single
from apps.campaigns.execution import claims
from apps.campaigns.models import Run
from apps.hosts.models import Host
from apps.hosts.services import install_units, uninstall_units
from tests.faults.counts import audit
from tests.faults.counts.ledger import Ledger
from tests.lab.conftest import differences, read_settings, starts
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

LEVELS = [
    {"label": "never", "set": {"settings.transparent_huge_pages.enabled": "never"}},
    {"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}},
]
RESTART_S = 600


def planned(host: Host, admin: User, steps: list[dict[str, Any]]) -> Run:
    """A queued run of these steps."""
    run = campaigns.start(host, admin, {"name": "thp", "levels": LEVELS[:1]}, time_s=3).runs.get()
    spec = {**run.spec, "steps": steps}
    Run.objects.filter(pk=run.pk).update(spec=spec, digest=digest(spec))
    return Run.objects.get(pk=run.pk)


def restart(limit_s: float = RESTART_S) -> dict[str, Any]:
    return {"name": "restart", "kind": "reboot", "options": {"limit_s": limit_s}}


def measure(name: str, seconds: int = 3) -> dict[str, Any]:
    return {"name": name, "kind": "pgbench", "options": {**campaigns.PGBENCH, "time_s": seconds}}


def went_down(run: Run) -> None:
    """Drive until the run reports that it restarts its host, which may be up again by then."""
    events = run.events.filter(kind="state", data__state="REBOOTING")
    campaigns.drive(lambda: events.exists(), timeout_s=RESTART_S)


def boots(run: Run, kind: str) -> list[str]:
    """The boot of each event of a kind: before or after REBOOTING."""
    states = [(event.seq, event.data["state"]) for event in run.events.filter(kind="state")]
    (gone,) = [seq for seq, state in states if state == "REBOOTING"]
    return ["before" if event.seq < gone else "after" for event in run.events.filter(kind=kind).order_by("seq")]


@pytest.mark.parametrize("units", [True, False], ids=["units", "next contact"])
def test_a_run_measures_in_two_boots(host: Host, admin: User, vm: Machine, ledger: Ledger, units: bool) -> None:
    (install_units if units else uninstall_units)(host, by=admin)
    before, boot = read_settings(vm), vm.boot_id()

    run = planned(host, admin, [measure("first"), restart(), measure("second")])
    campaigns.finish(run.campaign, RESTART_S)

    run.refresh_from_db()
    states = list(run.events.filter(kind="state").order_by("seq").values_list("data__state", flat=True))
    assert run.outcome == "ok", run.error
    assert [state for state, _ in groupby(states)][2:6] == ["RUNNING", "REBOOTING", "APPLYING", "VERIFIED"]
    assert vm.boot_id() != boot
    assert {row.step for row in run.measurements.all()} == {"first", "second"}
    assert set(boots(run, "write")) == {"before", "after"}
    ledger.count(17, 1, audit.of_runs([run]), differences(before, read_settings(vm)))


def test_a_campaign_restarts_its_host_before_each_repetition(supervised: Host, admin: User, vm: Machine) -> None:
    workload = campaigns.workloads.save_workload("small", single("pgbench", campaigns.PGBENCH), by=admin)
    campaign = services.create_campaign(
        by=admin,
        host=supervised,
        name="restarts",
        question="does it go on?",
        workload=workload,
        factors=[{"name": "levels", "levels": LEVELS}],
        repetitions=2,
        reboot="each_repetition",
    )
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign, RESTART_S)

    runs = list(campaign.runs.order_by("position"))
    restarted = ["REBOOTING" in run.manifest["timings"] for run in runs]
    assert [run.outcome for run in runs] == ["ok"] * 4, [run.error for run in runs]
    assert restarted == [True, False, True, False]
    assert previews.preview(campaign).restart_known
    supervised.refresh_from_db()
    assert supervised.state == Host.State.READY


def test_a_run_cancelled_during_the_restart_does_not_continue(
    supervised: Host, admin: User, vm: Machine, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the host is up before it gets the cancel, its guard continues the run; the next contact ends it."""
    before = read_settings(vm)
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    run = planned(supervised, admin, [restart(), measure("second", seconds=300)])
    went_down(run)

    services.cancel_run(run, by=admin)
    campaigns.finish(run.campaign, RESTART_S)

    run.refresh_from_db()
    assert run.outcome == "cancelled" and run.manifest["clean"]
    assert not run.measurements.exists()
    ledger.count(19, 1, audit.of_runs([run]), differences(before, read_settings(vm)))


def test_a_host_that_goes_down_again_while_its_run_resumes_is_not_restarted_once_more(
    supervised: Host, admin: User, vm: Machine, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, starts_before = read_settings(vm), starts(vm)
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    run = planned(supervised, admin, [restart(), measure("second", seconds=300)])
    went_down(run)
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state != "REBOOTING", timeout_s=RESTART_S)

    vm.cut_power()
    vm.up()
    campaigns.finish(run.campaign, RESTART_S)

    run.refresh_from_db()
    assert run.outcome == "interrupted" and run.manifest["clean"]
    assert run.events.filter(kind="state", data__state="REBOOTING").count() == 1
    assert starts(vm) == starts_before + 2
    ledger.count(18, 1, audit.of_runs([run]), differences(before, read_settings(vm)))


def test_a_host_whose_restart_takes_too_long_is_restored(supervised: Host, admin: User, vm: Machine) -> None:
    """The shutdown is delayed for longer than the run allows."""
    before = read_settings(vm)
    slow = (
        b"[Unit]\nDescription=slow\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\nExecStop=sleep 45\n"
    )
    vm.shell("sudo tee /run/systemd/system/slow.service", stdin=slow)
    vm.shell("sudo systemctl daemon-reload && sudo systemctl start slow")

    run = planned(supervised, admin, [restart(limit_s=30), measure("second")])
    campaigns.finish(run.campaign, RESTART_S)

    run.refresh_from_db()
    assert run.outcome == "interrupted" and "30 s were allowed" in run.error["message"], run.error
    assert differences(before, read_settings(vm)) == {}

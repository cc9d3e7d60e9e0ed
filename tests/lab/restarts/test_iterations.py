"""A campaign that restarts its host before each iteration continues by itself, also after power cuts."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from threading import Thread

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.execution import claims
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from tests.faults.counts import audit
from tests.faults.counts.ledger import Ledger
from tests.lab.conftest import differences, read_settings, starts
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

ITERATIONS, SEED = 3, 5
LIMIT_S = 2400
FACTORS = [
    {
        "name": "transparent huge pages",
        "levels": [
            {"label": word, "set": {"settings.transparent_huge_pages.enabled": word}} for word in ("never", "madvise")
        ],
    },
    {
        "name": "shared_buffers",
        "levels": [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in ("16MB", "64MB")],
    },
]
CELLS = 4


def start(host: Host, admin: User) -> Campaign:
    """3 iterations of 4 cells, the host restarted before each iteration."""
    load = single("pgbench", {**campaigns.PGBENCH, "time_s": 1})
    campaign = services.create_campaign(
        by=admin,
        host=host,
        name="iterations",
        question="does it go on by itself?",
        workload=workloads.save_workload("small", load, by=admin),
        factors=FACTORS,
        repetitions=ITERATIONS,
        sources=["cpu"],
        reboot="each_repetition",
        seed=SEED,
    )
    services.start_campaign(campaign, by=admin)
    return campaign


def finish(campaign: Campaign, meanwhile: Callable[[Campaign], None] = lambda campaign: None) -> list[Run]:
    """Do the work of beat and workers. Returns the runs in order."""

    def ended() -> bool:
        meanwhile(campaign)
        return not campaign.runs.filter(ingested_at=None).exists()

    campaigns.drive(ended, timeout_s=LIMIT_S)
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.FINISHED
    return list(campaign.runs.order_by("position"))


def counted(runs: list[Run]) -> Counter[tuple[int, str]]:
    return Counter((run.block, run.label) for run in runs)


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{line}")
        sys.stdout.flush()


def test_three_iterations_of_four_cells_go_through_three_restarts(
    supervised: Host, admin: User, vm: Machine, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    before, starts_before, began = read_settings(vm), starts(vm), time.monotonic()

    runs = finish(start(supervised, admin))

    took_s, restarts = time.monotonic() - began, starts(vm) - starts_before
    tell(capsys, f"{len(runs)} runs in {took_s:.0f} s, {restarts} restarts, each cell: {set(counted(runs).values())}")
    assert [run.outcome for run in runs] == ["ok"] * (ITERATIONS * CELLS), [run.error for run in runs]
    assert len(counted(runs)) == ITERATIONS * CELLS and set(counted(runs).values()) == {1}
    assert ["REBOOTING" in run.manifest["timings"] for run in runs] == ([True] + [False] * 3) * ITERATIONS
    assert restarts == ITERATIONS
    ledger.count(17, restarts, audit.of_runs(runs), differences(before, read_settings(vm)))


class PowerCuts:
    """Cuts the power while given runs are under way, each at its moment; the machine is switched on a while later, and
    the server keeps trying meanwhile."""

    def __init__(self, vm: Machine, delays: dict[int, float]) -> None:
        self._vm, self._delays, self._boot = vm, dict(delays), Thread()
        self.done = 0

    def cut_when_due(self, campaign: Campaign) -> None:
        under_way = campaign.runs.filter(state=Run.State.RUNNING, agent_state__in=["APPLYING", "VERIFIED", "RUNNING"])
        for run in under_way.filter(position__in=self._delays):
            time.sleep(self._delays.pop(run.position))
            self._vm.cut_power()
            self._boot = Thread(target=self._vm.up)
            self._boot.start()
            self.done += 1

    def join(self) -> None:
        if self.done:
            self._boot.join(LIMIT_S)


def test_a_campaign_continues_after_the_power_fails_twice(
    supervised: Host,
    admin: User,
    vm: Machine,
    ledger: Ledger,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever owns the host switches it on again, and does nothing else."""
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    before, chance, began = read_settings(vm), random.Random(SEED), time.monotonic()
    campaign = start(supervised, admin)
    cuts = PowerCuts(vm, {at: chance.uniform(0, 4) for at in (2, 7)})

    runs = finish(campaign, cuts.cut_when_due)

    cuts.join()
    outcomes = Counter(run.outcome for run in runs)
    tell(capsys, f"{cuts.done} power cuts in {time.monotonic() - began:.0f} s: {dict(outcomes)}")
    assert cuts.done == 2 and outcomes["ok"] >= ITERATIONS * CELLS - cuts.done
    assert set(outcomes) <= {"ok", "interrupted"}
    assert len(counted(runs)) == ITERATIONS * CELLS and set(counted(runs).values()) == {1}
    assert all(run.manifest["clean"] and not run.manifest["conflicts"] for run in runs)
    ledger.count(16, cuts.done, audit.of_runs(runs), differences(before, read_settings(vm)))

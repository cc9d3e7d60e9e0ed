"""Changes during a run: the clock, a value that another user sets, memory that is not available."""

from __future__ import annotations

import os
import time
import uuid
from random import Random

import pytest

from agents.host.system import System
from agents.records.spool import Spool, read_log
from agents.run.session import Session
from agents.wire import protocol
from tests.agents.driver import of
from tests.faults.counts.ledger import Ledger, often
from tests.faults.injection.struck import KNOB_FILE, Field

SEED = 25
DAY_S = 86_400
POOL = "/proc/sys/vm/nr_hugepages"


class ClockSet(System):
    """This machine, whose clock is set by `by_s` after `after_s`."""

    def __init__(self, after_s: float, by_s: float) -> None:
        self._at, self._by_s = self.mono() + after_s, by_s

    def wall(self) -> float:
        return super().wall() + (self._by_s if self.mono() > self._at else 0.0)


@often(10)
@pytest.mark.parametrize("by_s", [DAY_S, -DAY_S], ids=["forth", "back"])
def test_a_clock_that_is_set_by_a_day_changes_no_figure(here: Field, ledger: Ledger, by_s: int, times: int) -> None:
    """In the lab it is the real clock."""
    chance, before, runs = Random(SEED), here.take_snapshot(), []
    for _ in range(times):
        runs.append(str(uuid.uuid4()))
        spec = here.idle()
        job = here.spool.create({"run": runs[-1], "epoch": 1, "digest": protocol.digest(spec), "spec": spec})
        job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})

        carry_out(Spool(here.spool.root, ClockSet(chance.uniform(0, 3), by_s)), runs[-1])

        manifest, (measured,) = job.manifest or {}, of(read_log(job.path / "events.ndjson")[0], "measured")
        assert manifest["outcome"] == "ok", manifest
        assert all(0 <= seconds < 60 for seconds in manifest["timings"].values()), manifest["timings"]
        assert 1.5 < measured["ended"] - measured["began"] < 60
    here.reckon(ledger, 25, before, *runs)


def carry_out(spool: Spool, run: str) -> None:
    """In a process of its own, as it is on a host."""
    pid = os.fork()
    if not pid:
        try:
            lock = spool.lock_host()
            assert lock is not None
            Session(spool, spool.need(run), "test").execute()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_huge_pages_that_memory_cannot_give_are_not_in_effect_with_numbers(here: Field, ledger: Ledger) -> None:
    """In the lab, the same is tested with a real kernel and fragmented memory."""
    agent = here.connect()
    agent.events(agent.submit(here.pgbench(1)))
    before = here.take_snapshot()
    spec = {**here.pgbench(1), "settings": {"huge_pages": {"use": "on", "pool": 10_000_000}}}

    run = agent.submit(spec)

    (outcome,) = of(agent.events(run), "outcome")
    assert outcome["outcome"] == "not_in_effect", outcome
    assert outcome["error"]["wanted"].startswith("10000000 pages") and "which allow" in outcome["error"]["found"]
    here.reckon(ledger, 26, before, run)


@often(10)
def test_a_value_that_an_admin_sets_during_the_run_is_not_restored_but_reported(
    here: Field, ledger: Ledger, times: int
) -> None:
    agent, chance, runs, original = here.connect(), Random(SEED), list[str](), here.knob()
    before = here.take_snapshot()
    try:
        for _ in range(times):
            runs.append(agent.submit(here.idle(seconds=6)))
            agent.events(runs[-1], until="measuring")
            time.sleep(chance.uniform(0, 2))
            ours = here.knob()

            here.system.write(KNOB_FILE, "35")

            (outcome,) = of(agent.events(runs[-1]), "outcome")
            assert here.knob() == "35" and outcome["outcome"] == "not_in_effect"
            conflict = [{"key": KNOB_FILE, "original": original, "ours": ours, "found": "35"}]
            assert agent.manifest(runs[-1])[0]["conflicts"] == conflict
            here.system.write(KNOB_FILE, original)
        here.reckon(ledger, 27, before, *runs)
    finally:
        here.system.write(KNOB_FILE, original)

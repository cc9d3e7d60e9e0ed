"""No space left, where the agent keeps its records and where PostgreSQL keeps its data: the run ends and says so, the
host is as before, and the next run comes when there is room again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from tests.agents.driver import OK, Refused, of
from tests.faults.counts.ledger import Ledger, often
from tests.faults.injection.struck import KNOB_FILE, Field, fill, small, wait

SEED = 20
SPOOL_SIZE = "72m"  # its reserve of 64 MiB, and a little more


@contextmanager
def hog(ballast: Path) -> Iterator[None]:
    """A process that takes all space that becomes free."""
    enough = Event()

    def take() -> None:
        while not enough.wait(0.002):
            fill(ballast)

    thread = Thread(target=take, daemon=True)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join(30)


@often(20)
def test_a_full_spool_ends_the_run_and_its_reserve_takes_the_records(here: Field, ledger: Ledger, times: int) -> None:
    chance = Random(SEED)
    with small(here.spool.root, SPOOL_SIZE) as ballast:
        agent, before, runs = here.connect(), here.take_snapshot(), []
        for _ in range(times + 1):  # the reserve comes back
            runs.append(agent.submit(here.idle(seconds=20)))
            agent.events(runs[-1], until="APPLYING")
            time.sleep(chance.uniform(0, 2))

            fill(ballast)

            (outcome,) = of(agent.events(runs[-1]), "outcome")
            ballast.unlink()
            assert (outcome["outcome"], outcome["error"]["blame"]) == ("failed", "host")
            assert "pace left" in outcome["error"]["message"]
        here.reckon(ledger, 20, before, *runs)


def test_the_host_is_restored_even_without_the_reserve(here: Field, ledger: Ledger) -> None:
    with small(here.spool.root, SPOOL_SIZE) as ballast:
        agent, before = here.connect(), here.take_snapshot()
        run = agent.submit(here.idle(seconds=20))
        agent.events(run, until="measuring")

        with hog(ballast):
            wait(lambda: here.knob() == before[KNOB_FILE].strip())
        ballast.unlink()

        agent.events(run)  # when its process has ended, a contact finds it done and seals it
        here.reckon(ledger, 20, before, run)


def test_a_host_is_restored_after_the_agent_died_on_its_full_disk(here: Field, ledger: Ledger) -> None:
    with small(here.spool.root, SPOOL_SIZE) as ballast:
        agent, before = here.connect(), here.take_snapshot()
        run = agent.submit(here.idle(seconds=20))
        agent.events(run, until="measuring")
        os.kill(here.supervisor(run), signal.SIGKILL)
        fill(ballast)

        later = here.connect()
        (outcome,) = of(later.events(run), "outcome")
        here.reckon(ledger, 20, before, run)
        later.call("ack", run=run, manifest=later.manifest(run)[1])
        later.call("purge", run=run)
        fill(ballast)
        with pytest.raises(Refused, match="has no space for its reserve of"):
            here.connect().submit(here.idle(seconds=1))
        ballast.unlink()

        assert outcome["outcome"] == "interrupted"
        assert of(later.events(later.submit(here.idle(seconds=1))), "outcome") == [OK]


@often(10)
def test_a_full_data_directory_fails_the_run_and_the_next_one_has_its_data(
    here: Field, ledger: Ledger, times: int
) -> None:
    chance = Random(SEED)
    with small(here.data_dir, "400m") as ballast:
        agent, runs = here.connect(), []
        assert of(agent.events(agent.submit(here.pgbench(1))), "outcome") == [OK]
        before = here.take_snapshot()
        for _ in range(times):
            runs.append(agent.submit(here.pgbench(30, builtin="simple-update")))
            agent.events(runs[-1], until="measuring")
            time.sleep(chance.uniform(0, 1))

            fill(ballast)

            (outcome,) = of(agent.events(runs[-1]), "outcome")
            ballast.unlink()
            assert outcome["outcome"] == "failed", outcome
            assert of(agent.events(agent.submit(here.pgbench(1))), "outcome") == [OK]
        here.reckon(ledger, 21, before, *runs)

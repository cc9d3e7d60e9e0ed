"""SIGKILL of the agent, or a simulated power cut, at every boundary of the operations on a data set: the next run has
the original data, and nothing is left behind.

A boundary is before and after each record of datasets.json, each tool that creates, copies or drops data, each load,
and each note of the operation in the comment of the database.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.datasets.making import Making, Tools
from agents.host.system import System
from agents.measure.stage import Stage
from agents.records.processes import working_in
from agents.records.shelf import Shelf
from agents.records.spool import Spool, read_log
from agents.rpc import Agent
from agents.wire import protocol
from tests.agents.driver import OK
from tests.agents.dying import Death, run
from tests.agents.theirs import Theirs, where_all_can_enter
from tests.faults.injection.matrix import bin_dir
from tests.servers.remote import short_dir

SEED = 20260601
PLAIN_DATABASES = 3  # template0, template1, postgres
# Fails unless the data are as pgbench makes them.
AS_MADE = """
select 1 / (case when (select count(*) from pgbench_accounts where abalance = 0) = 100000
  and (select count(*) from pgbench_history) = 0 then 1 else 0 end);
"""


class House:
    """A spool and a cluster with one data set of pgbench's tables; `reset` says what runs that write get."""

    def __init__(self, root: Path, reset: str, dump: Path | None = None) -> None:
        self.data_dir = root / "data"
        self.data_dir.mkdir(mode=0o755)
        self.spool, self.reset = Spool(root / "spool", System()), reset
        self.spool.prepare()
        self.data = {"kind": "dump", "options": {"path": str(dump)}} if dump else {"kind": "pgbench", "options": {}}

    def live(self, at: int = 0, **load: Any) -> tuple[Death, list[dict[str, Any]]]:
        """(counts, events) of a run that is killed at boundary `at`, or not. Without a load it only creates data."""
        death, name = Death(at, sparse=True), str(uuid.uuid4())
        options = {"clients": 1, "transactions": 5, "progress_s": 0, **load}
        spec = {
            "version": 1,
            "target": {"kind": "private", "bin_dir": str(bin_dir()), "data_dir": str(self.data_dir), "os_user": ""},
            "settings": {},
            "dataset": {**self.data, "reset": self.reset},
            "steps": [{"name": "load", "kind": "pgbench", "options": options}] if load else [],
            "collect": {"interval_s": 1, "sources": []},
        }
        job = self.spool.create({"run": name, "epoch": 1, "digest": protocol.digest(spec), "spec": spec})
        job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})

        def live() -> None:
            around_the_data(death)
            run(self.spool, name)

        death.of(live)
        return death, read_log(job.path / "events.ndjson")[0]

    def cut_power(self) -> None:
        """Nothing of PostgreSQL gets a chance to clean up."""
        system = self.spool.system
        for pgdata in self.data_dir.glob("*/pgdata"):
            while victims := working_in(system, str(pgdata)):
                for process in victims:
                    system.kill(process.pid, signal.SIGKILL)  # one may end meanwhile
                system.sleep(0.01)

    def recover(self) -> None:
        agent = Agent(self.spool, "test", lambda *ignored: None)
        while agent.hello()["busy"]:
            self.spool.system.sleep(0.005)

    def check(self) -> None:
        """The next run has the original data, and nothing of the killed one is left."""
        _, events = self.live(script=AS_MADE)
        outcome = next(event["data"] for event in events if event["kind"] == "outcome")
        assert outcome == OK, outcome
        (home,) = (path.parent for path in self.data_dir.glob("*/datasets.json"))
        (entry,) = json.loads((home / "datasets.json").read_text())["datasets"].values()
        databases = [path for path in (home / "pgdata/base").iterdir() if path.name.isdigit()]
        assert entry["state"] == "pristine" and len(databases) == PLAIN_DATABASES + 1

    def forget(self) -> None:
        for home in self.data_dir.iterdir():
            shutil.rmtree(home)


def around_the_data(death: Death) -> None:
    """Patches: only for a forked process."""
    Shelf._write = death.around(Shelf._write, lambda shelf: "datasets.json")  # type: ignore[method-assign]
    Tools.execute = death.around(Tools.execute, lambda tools, purpose, *rest: purpose)  # type: ignore[method-assign]
    Stage.measure = death.around(Stage.measure, lambda stage, *rest: "load")  # type: ignore[method-assign]
    Making._comment = death.around(Making._comment, lambda making, began: f"comment {began}")  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def dump() -> Iterator[Path]:
    """A dump of pgbench's tables as they were made."""
    with short_dir() as directory:
        theirs = (
            Theirs(directory / "theirs", where_all_can_enter(str(bin_dir()), directory), port=5496).create().start()
        )
        theirs.fill("production")
        yield theirs.dump(name="production.dump", database="production")
        theirs.stop()


@pytest.fixture
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with short_dir() as root:
        yield House(root, request.param)


def killed(house: House, at: int, **load: Any) -> str:
    """Where it was; every second time PostgreSQL dies with its agent."""
    death, _ = house.live(at, **load)
    if at % 2:
        house.cut_power()
    house.recover()
    house.check()
    return death.trail[-1]


def every(house: House, kills: int, capsys: pytest.CaptureFixture[str], afresh: bool, **load: Any) -> None:
    """`kills` of the boundaries, 0 for all, the same each time; `afresh` with no cluster before each."""
    house.live(script="select 1")
    if afresh:
        house.forget()
    death, _ = house.live(**load)
    everywhere = list(range(1, len(death.trail) + 1))
    chosen = sorted(Random(SEED).sample(everywhere, min(kills, len(everywhere)))) if kills else everywhere
    for at in chosen:
        if afresh:
            house.forget()
        where = killed(house, at, **load)
        with capsys.disabled():
            sys.stdout.write(f"\n{at} of {len(everywhere)}: {where}")


KILLS = [pytest.param(4, id="some"), pytest.param(0, id="all", marks=pytest.mark.slow)]
WRITES = {"builtin": "tpcb-like"}


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("house", ["auto"], indirect=True)
def test_data_whose_making_was_killed_are_whole_for_the_next_run(
    house: House, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    every(house, kills, capsys, afresh=True)


@pytest.mark.parametrize("kills", KILLS)
def test_a_dump_whose_restore_was_killed_is_whole_for_the_next_run(
    dump: Path, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with short_dir() as root:
        every(House(root, "auto", dump), kills, capsys, afresh=True)


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("house", ["copy", "reinit"], indirect=True)
def test_a_run_that_writes_and_is_killed_disturbs_no_later_one(
    house: House, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    every(house, kills, capsys, afresh=False, **WRITES)

"""Which facts of the host a submitted run is planned with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.host.system import System
from agents.records.spool import Job, Spool
from agents.rpc import RECENT_S, Agent
from agents.wire import protocol

RUN = "11111111-1111-4111-8111-111111111111"


class Clock(System):
    """The real host, whose clock only moves when it is set: a busy machine can take a second for one step."""

    now = 1000.0

    def mono(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def launched() -> list[Job]:
    return []


@pytest.fixture
def agent(clock: Clock, launched: list[Job], tmp_path: Path) -> Agent:
    spool = Spool(tmp_path / "spool", clock)
    spool.prepare()
    return Agent(spool, "test", lambda spool, job, lock, agent_id: launched.append(job))


def submit(agent: Agent) -> None:
    spec: dict[str, Any] = {"version": 1, "target": None, "settings": {}, "steps": []}
    spec["collect"] = {"interval_s": 1, "sources": []}
    agent.submit(RUN, 1, protocol.digest(spec), spec)


def test_a_run_gets_the_facts_that_the_server_has_just_asked_for(
    agent: Agent, clock: Clock, launched: list[Job]
) -> None:
    facts = agent.facts()
    clock.now += RECENT_S - 0.01

    submit(agent)

    assert launched[0].facts is facts


def test_older_facts_are_read_again(agent: Agent, clock: Clock, launched: list[Job]) -> None:
    older = agent.facts()
    clock.now += RECENT_S

    submit(agent)

    facts = launched[0].facts
    assert facts is not None and facts is not older
    assert facts["cpus"]["online"] == older["cpus"]["online"]

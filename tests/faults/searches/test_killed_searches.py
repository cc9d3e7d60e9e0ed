"""kill -9 of parts of the server during a search of real runs: no trial is lost, doubled or wrongly attributed.

`python -m tests.faults.searches` kills each part, 30 times in total.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.faults.injection import siege
from tests.faults.injection.siege import Siege
from tests.faults.searches.besieged import BesiegedSearch, order

SEED = 24
ROUND_PLANNED_S = 12  # longer than two periods of the beat


@pytest.fixture(scope="module")
def stack() -> Iterator[Siege]:
    with siege.prepare(SEED, siege.SERVER) as ready:
        yield ready


def test_a_search_whose_server_is_killed_has_each_trial_once_with_the_results_of_its_values(stack: Siege) -> None:
    search = BesiegedSearch(stack)
    search.start(runs=14, seed=3)

    for service in order(stack.chance, list(search.services), kills=2):
        search.kill(service)
    search.finish()

    findings = search.audit()
    assert findings.harms == []
    assert (findings.state, findings.runs) == ("finished", 14)
    assert search.read("rounds/")["results"][-1]["kind"] == "confirmation"
    assert stack.left() == []


def test_a_paused_search_plans_nothing_over_a_restart_of_the_server_and_continues_when_it_is_resumed(
    stack: Siege,
) -> None:
    search, client = BesiegedSearch(stack), stack.ground.client
    search.start(runs=10, seed=4)
    stack.wait(lambda: stack.measuring)

    client.post(f"searches/{search.key}/pause/")
    stack.restart()
    stack.wait(lambda: search.is_between_rounds)
    time.sleep(ROUND_PLANNED_S)
    paused, rounds = search.read(), len(search.rounds())
    client.post(f"searches/{search.key}/resume/")
    search.finish()

    findings = search.audit()
    assert (paused["state"], paused["state_reason"], rounds) == ("paused", "by ada", 1)
    assert findings.harms == []
    assert (findings.state, findings.runs, stack.left()) == ("finished", 10, [])

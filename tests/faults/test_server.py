"""Parts of the server are killed, stopped, emptied and doubled during a campaign: it ends with each run once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.counts.ledger import Ledger, often
from tests.faults.injection import moments, siege
from tests.faults.injection.siege import DISPATCHER, WORKER, Siege

SEED = 5
BUSY_S = 2.5


@pytest.fixture(scope="module")
def stack() -> Iterator[Siege]:
    with siege.prepare(SEED, siege.SERVER) as ready:
        yield ready


def strike(stack: Siege, ledger: Ledger, fault: int, times: int, act: Callable[[str], None], seconds: int = 1) -> None:
    """So many campaigns of two runs of so many seconds, each struck once; all of them whole."""
    struck = []
    for _ in range(times):
        struck.append(stack.start(options={**siege.PGBENCH, "time_s": seconds}))
        act(struck[-1])
        stack.finish(struck[-1])
    audited, outcomes, cells = stack.audit(*struck)
    ledger.count(fault, times, audited, stack.left())
    assert (outcomes, cells) == ({"ok": 2 * times}, 2 * times)


def at_any_moment(stack: Siege) -> None:
    """Some moment of the two runs."""
    deadline = time.monotonic() + stack.chance.uniform(0, 2 * BUSY_S)
    stack.wait(lambda: time.monotonic() > deadline)


@often(20)
@pytest.mark.parametrize(("fault", "moment"), list(enumerate(moments.MOMENTS, 1)))
def test_a_worker_is_killed_at_a_moment_that_counts(
    stack: Siege, ledger: Ledger, fault: int, moment: str, times: int
) -> None:
    def act(campaign: str) -> None:
        stack.trap(moment)
        stack.wait(lambda: stack.sprung)

    strike(stack, ledger, fault, times, act)


@often(20)
def test_a_child_of_the_pool_is_killed(stack: Siege, ledger: Ledger, times: int) -> None:
    def act(campaign: str) -> None:
        at_any_moment(stack)
        stack.kill_child(WORKER)

    strike(stack, ledger, 4, times, act)


def ticks(stack: Siege, dispatcher: str) -> int:
    """How many ticks a dispatcher has received, by its log."""
    return stack.ground.supervisor.log(dispatcher).read_text().count("campaigns.tick[")


@often(5)
def test_a_tick_that_slept_until_it_was_delivered_again_writes_nothing(
    stack: Siege, ledger: Ledger, times: int
) -> None:
    """A second worker takes over; the first wakes up in the middle of what it did."""

    def act(campaign: str) -> None:
        stack.wait(lambda: stack.measuring)
        stack.stop(DISPATCHER)
        stack.ground.supervisor.start(stack.dispatcher("second"))
        time.sleep(max(moments.SHORT_CLAIM_S, moments.SHORT_VISIBILITY_S) + 3)
        # Received after the claim of the first has expired, however long this one took to start.
        known = ticks(stack, "second")
        stack.wait(lambda: ticks(stack, "second") > known)
        stack.resume(DISPATCHER)
        stack.finish(campaign)
        stack.ground.supervisor.end("second")

    strike(stack, ledger, 5, times, act, seconds=4)
    assert "another worker took over" in stack.ground.supervisor.log(DISPATCHER).read_text()


@often(20)
def test_redis_is_killed_and_started_again(stack: Siege, ledger: Ledger, times: int) -> None:
    def act(campaign: str) -> None:
        at_any_moment(stack)
        stack.kill("valkey")

    strike(stack, ledger, 6, times, act)


@often(20)
def test_redis_is_emptied(stack: Siege, ledger: Ledger, times: int) -> None:
    def act(campaign: str) -> None:
        at_any_moment(stack)
        stack.flush()

    strike(stack, ledger, 7, times, act)


@often(20)
def test_the_servers_database_is_killed(stack: Siege, ledger: Ledger, times: int) -> None:
    def act(campaign: str) -> None:
        at_any_moment(stack)
        stack.kill_postgres()

    strike(stack, ledger, 8, times, act)


def test_a_paused_campaign_stays_paused_over_a_restart_of_the_server_and_is_resumed_after_it(stack: Siege) -> None:
    client = stack.ground.client
    campaign = stack.start(options={**siege.PGBENCH, "time_s": 3})
    stack.wait(lambda: stack.measuring)

    paused = client.post(f"campaigns/{campaign}/pause/", reason="the server moves")
    stack.restart()
    stack.wait(lambda: "ended" in [run["state"] for run in stack.runs(campaign)])
    time.sleep(BUSY_S)
    states = sorted(run["state"] for run in stack.runs(campaign))
    after_restart = client.get(f"campaigns/{campaign}/")
    client.post(f"campaigns/{campaign}/resume/")
    stack.finish(campaign)

    assert paused["state"] == after_restart["state"] == "paused" and after_restart["state_reason"] == "the server moves"
    assert states == ["ended", "queued"]
    audited, outcomes, cells = stack.audit(campaign)
    assert (outcomes, cells) == ({"ok": 2}, 2)
    assert (audited.lost, audited.duplicated, audited.overlapping, stack.left()) == (0, 0, 0, [])


@often(5)
def test_two_beats_call_at_once(stack: Siege, ledger: Ledger, times: int) -> None:
    def act(campaign: str) -> None:
        stack.finish(campaign)

    stack.second_beat()
    strike(stack, ledger, 9, times, act)
    stack.ground.supervisor.end("beat2")

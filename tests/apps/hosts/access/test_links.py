"""Open SSH links are reused, by one user at a time, while they work and lead to the host's address."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import BoundedSemaphore, Timer
from typing import Any

import pytest

from agents.host.system import System
from agents.records.spool import Spool
from apps.campaigns.execution import supervision
from apps.hosts.access import hops, links, ssh
from apps.hosts.models import Host, HostKey
from common.errors import AgentError, HostError, PlanError, UnreachableError
from tests.faults.injection.wire import Proxy
from tests.servers.remote import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def none_kept() -> Iterator[None]:
    """Neither from the test before, nor for the next one."""
    for host_id, pooled in list(links._idle.items()):
        links._expire(host_id, pooled.link)
    yield
    for host_id, pooled in list(links._idle.items()):
        links._expire(host_id, pooled.link)


@pytest.fixture(autouse=True)
def any_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was sent ahead stays recent, however slowly a test proceeds."""
    monkeypatch.setattr(ssh, "AHEAD_S", 100.0)


@pytest.mark.fast
def test_the_next_user_continues_with_the_same_link(host: Host) -> None:
    with links.link(host) as first:
        pass

    with links.link(host) as second:
        assert second is first
        assert second.call("hello")["machine_id"] == host.machine_id


@pytest.mark.fast
def test_another_thread_may_continue_with_it(host: Host) -> None:
    with links.link(host) as first:
        pass

    def use() -> bool:
        with links.link(host) as taken:
            return taken is first and bool(taken.call("hello"))

    with ThreadPoolExecutor() as pool:
        assert pool.submit(use).result()


def test_a_request_that_was_sent_before_is_not_repeated_by_its_call(host: Host) -> None:
    with links.link(host) as taken:
        taken.ask("status_of_all")  # a verb that no agent has
        sent = taken._calls

        with pytest.raises(PlanError, match="unknown verb 'status_of_all'"):
            taken.call("status_of_all")

        assert taken._calls == sent


def test_a_call_gets_its_own_reply_after_others_in_any_order(host: Host) -> None:
    facts: dict[str, Any] = {"pg_bin_dirs": [], "pg_data_dirs": []}
    with links.link(host) as taken:
        taken.ask("facts", **facts)
        taken.ask("health", paths=[host.spool_dir])
        sent = taken._calls

        assert taken.call("hello")["machine_id"] == host.machine_id
        assert taken.call("health", paths=[host.spool_dir])["wall"]
        assert taken.call("facts", **facts)["cpus"]["online"]
        assert taken._calls == sent + 1


def test_replies_that_arrive_together_are_both_read(host: Host) -> None:
    with links.link(host) as taken:
        taken.ask("nudge")
        taken.ask("health", paths=[host.spool_dir])
        time.sleep(0.3)  # both are in the pipe

        assert taken.call("nudge") == {}
        assert taken.call("health", paths=[host.spool_dir])["wall"]


def test_a_request_is_sent_ahead_once(host: Host) -> None:
    with links.link(host) as taken:
        taken.ask("nudge")
        sent = taken._calls

        taken.ask("nudge")

        assert taken._calls == sent


def test_a_reply_to_an_old_request_is_not_used(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with links.link(host) as taken:
        taken.ask("health", paths=[host.spool_dir])
        sent = taken._calls
        monkeypatch.setattr(ssh, "AHEAD_S", 0.0)

        assert taken.call("health", paths=[host.spool_dir])["wall"]

        assert taken._calls == sent + 1


def test_a_link_in_use_is_not_shared(host: Host) -> None:
    with links.link(host) as first, links.link(host) as second:
        assert second is not first


def test_a_caller_waits_for_a_link_that_is_released_in_a_moment(host: Host) -> None:
    with ThreadPoolExecutor() as pool, links.link(host) as first:
        next_run = pool.submit(lambda: _taken(host))
        time.sleep(0.05)

    assert next_run.result() is first


def _taken(host: Host) -> ssh.Link:
    with links.link(host) as taken:
        return taken


def test_of_two_returned_links_one_is_closed(host: Host) -> None:
    with links.link(host) as first, links.link(host) as second:
        pass

    assert [pooled.link for pooled in links._idle.values()] == [first]
    with pytest.raises(RuntimeError, match="closed"):
        second._runner.get_loop()


def test_a_refusal_leaves_the_link_sound(host: Host) -> None:
    with pytest.raises(PlanError), links.link(host) as first:
        first.call("status", run="no uuid")

    with links.link(host) as second:
        assert second is first


def test_a_broken_idle_link_is_replaced_without_an_error(host: Host) -> None:
    with links.link(host) as first:
        pass
    first._runner.run(_break(first))

    with links.link(host) as second:
        assert second is not first
        assert second.call("hello")["machine_id"] == host.machine_id


def test_a_link_that_broke_in_use_is_not_reused(host: Host) -> None:
    with pytest.raises(HostError), links.link(host) as link:
        link.call("read", run="", path="", offset=0, timeout_s=0.0)

    assert not links._idle


def test_a_host_with_a_changed_connection_is_connected_again(host: Host) -> None:
    with links.link(host) as first:
        pass
    host.spool_dir = str(Path(host.spool_dir).with_name("another"))

    with links.link(host) as second:
        assert second is not first


def test_a_greeting_waits_while_the_agent_works_on_a_request(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "GREET_S", 0.0)
    with links.link(host) as first:
        first.ask("facts", pg_bin_dirs=[], pg_data_dirs=[])

    with links.link(host) as second:
        assert second is first
    with links.link(host) as third:
        assert third is not first, "the request has been answered"


def test_the_reply_to_a_request_that_took_long_is_used(host: Host) -> None:
    facts: dict[str, Any] = {"pg_bin_dirs": [], "pg_data_dirs": []}
    with links.link(host) as taken:
        taken.ask("facts", **facts)
        taken._ahead["facts"].at -= 0.6 * ssh.AHEAD_S
        taken.call("hello")  # also reads the reply to the request, which was sent before
        sent = taken._calls

        taken._ahead["facts"].at -= 0.6 * ssh.AHEAD_S
        taken.ask("facts", **facts)

        assert taken.call("facts", **facts)["cpus"]["online"]
        assert taken._calls == sent


def test_retiring_a_host_key_closes_the_idle_link(host: Host) -> None:
    with links.link(host):
        pass
    host.host_keys.update(state=HostKey.State.RETIRED)

    with pytest.raises(UnreachableError, match="not approved"), links.link(host):
        pass


def test_an_unused_link_is_closed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "KEEP_S", 0.1)
    with links.link(host) as link:
        pass

    deadline = time.monotonic() + 60
    while not _is_closed(link):
        assert time.monotonic() < deadline
        time.sleep(0.05)

    assert not links._idle


def _is_closed(link: ssh.Link) -> bool:
    try:
        link._runner.get_loop()
    except RuntimeError as error:
        return "closed" in str(error)
    return False


def test_only_a_few_are_opened_at_a_time(host: Host, all_turns_taken: BoundedSemaphore) -> None:
    with pytest.raises(HostError, match="no free connection slot within"), links.link(host):
        pass

    all_turns_taken.release()
    with links.link(host) as link:
        assert link.call("hello")
        assert all_turns_taken.acquire(blocking=False), "opened, it takes no turn any more"


def test_reusing_a_link_does_not_wait_for_a_turn(host: Host, all_turns_taken: BoundedSemaphore) -> None:
    all_turns_taken.release()
    with links.link(host) as first:
        pass
    assert all_turns_taken.acquire(blocking=False)

    with links.link(host) as second:
        assert second is first


def test_a_host_that_did_not_answer_keeps_only_its_like_waiting(host: Host, all_turns_taken: BoundedSemaphore) -> None:
    host.state = Host.State.UNREACHABLE

    with links.link(host) as link:
        assert link.call("hello")


@pytest.fixture
def all_turns_taken(monkeypatch: pytest.MonkeyPatch) -> BoundedSemaphore:
    """The only turn for hosts that answer, taken by the test."""
    turns = BoundedSemaphore(1)
    turns.acquire()
    monkeypatch.setattr(links, "TURN_S", 0.1)
    monkeypatch.setitem(links._turns, False, turns)
    return turns


@pytest.fixture
def job(host: Host) -> Iterator[str]:
    """The directory of a run without events, whose host is leased."""
    run = str(uuid.uuid4())
    directory = Path(host.spool_dir) / "jobs" / run
    directory.mkdir()
    lock = Spool(Path(host.spool_dir), System()).lock_host()
    assert lock is not None
    yield run
    os.close(lock)
    shutil.rmtree(directory)


def _wait(link: ssh.Link, run: str) -> float:
    """How long a read of nine seconds took."""
    began = time.monotonic()
    link.call("read", run=run, path="events.ndjson", offset=0, wait_s=9.0, gather=True)
    return time.monotonic() - began


def test_a_nudge_ends_a_wait(host: Host, job: str) -> None:
    with ssh.Link(host) as link:
        Timer(0.3, link.nudge).start()
        assert _wait(link, job) < 8


def test_a_nudge_before_the_wait_counts_as_well(host: Host, job: str) -> None:
    with ssh.Link(host) as link:
        link.nudge()
        assert _wait(link, job) < 8


def test_a_connection_to_a_silent_host_is_lost_after_twice_the_keepalive(
    register: Callable[[Server], Host], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "KEEPALIVE_S", 1)
    with Proxy(server.port) as proxy, ssh.Link(register(replace(server, port=proxy.port))) as link:
        proxy.swallow()
        began = time.monotonic()

        with pytest.raises(AgentError):
            link.call("hello", timeout_s=60)

        assert 1.5 < time.monotonic() - began < 10


def test_an_answer_that_takes_longer_than_the_keepalive_is_waited_for(
    host: Host, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "KEEPALIVE_S", 1)
    with ssh.Link(host) as link:
        assert link.call("read", run=job, path="events.ndjson", offset=0, wait_s=4.0)["data"] == ""


def test_the_server_notices_a_silent_host_within_a_call_and_asks_nothing_while_it_waits_for_events() -> None:
    assert 2 * hops.KEEPALIVE_S <= ssh.CALL_S
    assert hops.KEEPALIVE_S > supervision.UNWATCHED_WAIT_S


async def _break(link: ssh.Link) -> None:
    link._connection.abort()

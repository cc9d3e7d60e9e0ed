"""The task that ticks a run continues with the next run of its host, and leaves nothing undone."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from apps.accounts.models import User
from apps.campaigns import services, tasks
from apps.campaigns.execution import claims, dispatch, queue, supervision
from apps.campaigns.models import Campaign, Run
from apps.celery import stop_ticks
from apps.hosts.access import ssh
from apps.hosts.models import Host
from apps.infrastructure import waking
from apps.results.live import news
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs for which a message was sent."""
    runs: list[str] = []
    monkeypatch.setattr(waking, "send", lambda task, run, **_: runs.append(run) if task == queue.TICK else None)
    return runs


def in_order(campaign: Campaign) -> list[Run]:
    return list(campaign.runs.order_by("position"))


@pytest.mark.fast
def test_one_task_carries_out_the_runs_of_a_host_one_after_another(host: Host, admin: User, woken: list[str]) -> None:
    campaign = campaigns.start(host, admin, repetitions=3, time_s=1)
    first = in_order(campaign)[0]
    woken.clear()

    tasks.tick(str(first.pk))

    assert {run.outcome for run in in_order(campaign)} == {Run.Outcome.OK}
    assert woken == []


def test_a_task_leaves_the_next_run_to_another_once_its_time_is_over(
    host: Host, admin: User, woken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = campaigns.start(host, admin, repetitions=2, time_s=1)
    first, second = in_order(campaign)
    monkeypatch.setattr(claims, "FOLLOW_S", 0.0)
    woken.clear()

    while not woken or woken[-1] == str(first.pk):
        tasks.tick(str(first.pk))

    second.refresh_from_db()
    assert woken[-1] == str(second.pk)
    assert (second.state, second.next_tick_at is None) == (Run.State.QUEUED, False)


@pytest.mark.fast
def test_a_tick_ends_before_its_leases_expire_and_the_broker_sends_its_message_again() -> None:
    longest_s = claims.FOLLOW_S + ssh.CALL_S
    assert longest_s < claims.LEASE_S
    assert longest_s < settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]


@pytest.mark.fast
def test_a_page_does_not_call_an_agent_silent_whose_events_gather_on_the_host() -> None:
    assert news.SILENT_S > supervision.UNWATCHED_WAIT_S


def test_a_worker_that_stops_leaves_the_next_run_to_another(
    host: Host, admin: User, woken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = campaigns.start(host, admin, repetitions=2, time_s=1)
    first, second = in_order(campaign)
    original = dispatch.tick

    def tick_and_stop(run: Run, deadline: float) -> None:
        original(run, deadline)
        claims.stopping.set()

    monkeypatch.setattr(dispatch, "tick", tick_and_stop)
    woken.clear()
    try:
        tasks.tick(str(first.pk))
    finally:
        claims.stopping.clear()

    assert woken == [str(second.pk)]


def test_a_worker_that_stops_does_not_wait_for_events(
    host: Host, admin: User, woken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = campaigns.start(host, admin, time_s=60).runs.get()
    monkeypatch.setattr(supervision, "WAIT_S", 9.0)
    with ThreadPoolExecutor() as pool:
        ticking = pool.submit(_tick_in_thread, run)
        deadline = time.monotonic() + 60
        while Run.objects.get(pk=run.pk).agent_state != "RUNNING":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1)  # the wait for further events has begun
        began = time.monotonic()

        stop_ticks()
        try:
            ticking.result(timeout=60)
        finally:
            claims.stopping.clear()

    assert time.monotonic() - began < 5
    assert Run.objects.get(pk=run.pk).claimed_until is None
    services.cancel_campaign(run.campaign, by=admin)
    campaigns.finish(run.campaign)


def _tick_in_thread(run: Run) -> None:
    try:
        tasks.tick(str(run.pk))
    finally:
        connection.close()


def test_after_an_error_a_worker_is_woken_for_the_run_that_was_kept(woken: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), queue.first_wake_deferred() as kept:
        queue.wake(Run().pk)
        kept_run = kept[0]
        raise ZeroDivisionError

    assert woken == [kept_run]


def test_only_the_first_run_is_kept(woken: list[str]) -> None:
    first, second = Run().pk, Run().pk

    with queue.first_wake_deferred() as kept:
        queue.wake(first)
        queue.wake(second)
    queue.wake(first)

    assert (kept, woken) == ([str(first)], [str(second), str(first)])


def test_facts_and_files_are_requested_while_the_end_of_a_run_is_stored(
    host: Host, admin: User, woken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = campaigns.start(host, admin, repetitions=2, time_s=1)
    first, second = in_order(campaign)
    requests: list[tuple[str, str]] = []
    original = ssh.Link._request

    async def request(link: ssh.Link, verb: str, args: dict[str, Any]) -> int:
        requests.append((verb, str(Run.objects.get(pk=first.pk).state)))
        return await original(link, verb, args)

    monkeypatch.setattr(ssh.Link, "_request", request)
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

    tasks.tick(str(first.pk))

    verbs = [verb for verb, _ in requests]
    assert verbs.count("collect") == 2 and verbs.count("submit") == 2
    between = requests[verbs.index("collect") : len(verbs) - verbs[::-1].index("submit")]
    assert [verb for verb, _ in between] == ["collect", "facts", "hello", "submit"]
    assert dict(between)["facts"] == Run.State.RUNNING
    second.refresh_from_db()
    assert second.facts_id is not None and second.facts.seen_at > first.campaign.started_at

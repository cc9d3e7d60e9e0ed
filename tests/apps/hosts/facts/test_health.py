"""Health checks: which results take a host out of its queue or return it, and when hosts are checked."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from agents.host import health as agent_health
from agents.host.system import System
from apps.accounts.models import AuditEntry, User
from apps.campaigns.models import Run
from apps.hosts import contact
from apps.hosts.facts import health
from apps.hosts.models import Host, Trouble
from apps.hosts.usage import leases
from tests.rows.factories import browser, make_campaign, make_host, make_user
from tests.servers import campaigns

LIMITS = health.Limits(free_mib=1024, clock_s=2.0, celsius=95.0)
FINE: dict[str, Any] = {
    "space": [{"path": "/var/lib/spool", "free_kb": 4_000_000}],
    "restart_due": False,
    "failed_units": [],
    "celsius": 48.0,
    "wall": 1000.0,
}
HELLO: dict[str, Any] = {"dirty": [], "conflicts": [], "units": "current"}
EXACT = health.Clock(ahead_s=0.01, error_s=0.02)


def wrong(measured: dict[str, Any] | None = None, hello: dict[str, Any] | None = None, at: health.Clock = EXACT) -> str:
    return health.failed(health.health_rows(FINE | (measured or {}), HELLO | (hello or {}), at, LIMITS))


def test_a_host_that_is_fine_fails_nothing() -> None:
    assert wrong() == ""


@pytest.mark.parametrize(
    ("measured", "hello", "at", "says"),
    [
        (
            {"space": [{"path": "/pg", "free_kb": 1000 * 1024}]},
            {},
            EXACT,
            "free space for /pg: 1,000 MiB, needs at least 1,024 MiB",
        ),
        ({}, {}, health.Clock(-3.5, 0.1), "clock: 3.50 s behind the server's"),
        ({"celsius": 99.0}, {}, EXACT, "hottest thermal zone: 99 °C"),
        ({}, {"units": "outdated"}, EXACT, "units of the agent: outdated, needs current"),
        ({}, {"dirty": ["0123456789"]}, EXACT, "values that were not restored: of run 01234567"),
    ],
)
def test_a_failed_check_is_a_sentence(
    measured: dict[str, Any], hello: dict[str, Any], at: health.Clock, says: str
) -> None:
    assert wrong(measured, hello, at).startswith(says)


@pytest.mark.parametrize(
    ("measured", "hello"),
    [({"restart_due": True}, {}), ({"failed_units": ["cron.service"]}, {}), ({}, {"conflicts": ["0123"]}),
     ({"celsius": None}, {}), ({}, {"units": "absent"})],
)  # fmt: skip
def test_some_findings_do_not_fail_the_check(measured: dict[str, Any], hello: dict[str, Any]) -> None:
    assert wrong(measured, hello) == ""


def test_a_slow_answer_makes_no_clock_wrong() -> None:
    """Requested at 1000, answered at 1010: a clock that showed 1008 may be correct."""
    assert health.clock(1000.0, 1008.0, 1010.0) == health.Clock(3.0, 5.0)
    assert wrong(at=health.Clock(3.0, 5.0)) == ""


def test_hosts_are_never_all_checked_at_once() -> None:
    assert health.at_once(200, every_s=300, beat_s=10) == 14
    assert health.at_once(1, every_s=300, beat_s=10) == 1


def test_the_agent_reports_free_space_for_a_directory_that_does_not_exist(tmp_path: Any) -> None:
    began = timezone.now().timestamp()

    measured = agent_health.read_health(System(), [str(tmp_path / "not" / "there"), "/proc"])

    assert measured["space"][0]["free_kb"] > 0
    assert isinstance(measured["restart_due"], bool)
    assert began - 1 < measured["wall"] < timezone.now().timestamp() + 1


@pytest.mark.django_db
class TestTransitions:
    def test_a_failed_check_stops_the_queue_of_a_host_and_a_successful_one_resumes_it(self) -> None:
        bench = make_host("bench")
        full = health.health_rows(FINE | {"space": [{"path": "/pg", "free_kb": 0}]}, HELLO, EXACT, LIMITS)

        contact.record_health(bench, full)
        assert (bench.state, bench.state_reason.split(",")[0]) == (Host.State.UNFIT, "free space for /pg: 0 MiB")

        contact.record_health(bench, health.health_rows(FINE, HELLO, EXACT, LIMITS))
        assert (bench.state, bench.state_reason) == (Host.State.READY, "")
        assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == ["host.unfit", "host.fit"]

    @pytest.mark.parametrize("page", ["host_list", "home", "host_detail"])
    def test_pages_call_a_host_whose_check_failed_not_ready(self, page: str) -> None:
        bench, user = make_host("bench"), make_user()
        contact.mark_unfit(bench, "free space for /pg: 165 MiB, needs at least 1,024 MiB")

        content = browser(user).get(reverse(page, args=[bench.name] if page == "host_detail" else [])).content.decode()

        assert "not ready" in content
        assert not re.search(r">[^<]*unfit", content)

    def test_health_never_ends_a_quarantine(self) -> None:
        bench = make_host("bench", state=Host.State.QUARANTINED, state_reason="dirty")

        contact.record_health(bench, health.health_rows(FINE, HELLO, EXACT, LIMITS))
        contact.mark_unfit(bench, "hot")

        bench.refresh_from_db()
        assert (bench.state, bench.state_reason) == (Host.State.QUARANTINED, "dirty")

    def test_a_host_that_answers_again_is_as_unfit_as_it_was(self) -> None:
        full = health.health_rows(FINE | {"space": [{"path": "/pg", "free_kb": 0}]}, HELLO, EXACT, LIMITS)
        bench = make_host("bench", state=Host.State.UNREACHABLE, health=full)

        contact.record_contact(bench, hello_of(bench))

        assert bench.state == Host.State.UNFIT

    def test_a_conflict_that_only_the_agent_knows_is_reported_once_and_filled_in_later(self) -> None:
        bench, run = make_host("bench"), str(uuid4())
        key = {"key": "vm.swappiness", "original": "60", "ours": "1", "found": "10"}

        contact.record_contact(bench, hello_of(bench) | {"conflicts": [run]})
        contact.report_trouble(bench, run, Trouble.Kind.CONFLICT, [key])
        contact.record_contact(bench, hello_of(bench) | {"conflicts": [run]})

        assert Trouble.objects.get().keys == [key]
        assert bench.state == Host.State.READY


def hello_of(host: Host) -> dict[str, Any]:
    return HELLO | {
        "machine_id": host.machine_id,
        "boot_id": "b" * 32,
        "level": "user",
        "supervisor": "detached",
        "agent": "a" * 64,
        "version": "0.2.0",
        "recovered": [],
    }


@pytest.mark.django_db
class TestWhoIsAsked:
    def test_hosts_without_recent_contact_are_checked_once_each(self) -> None:
        now = timezone.now()
        silent = make_host("silent", last_contact_at=now - timedelta(minutes=6))
        make_host("heard", last_contact_at=now - timedelta(minutes=1))

        assert contact.claim_checks(now) == [silent.pk]
        assert contact.claim_checks(now) == []
        assert contact.claim_checks(now + timedelta(minutes=5, seconds=1)) != []

    def test_a_host_that_a_run_uses_is_not_checked(self) -> None:
        now = timezone.now()
        busy = make_host("busy", last_contact_at=now - timedelta(minutes=6))
        run = make_campaign(host=busy, state="running").runs.order_by("position")[0]
        leases.acquire(busy.machine_id, run.pk, 60)

        assert contact.claim_checks(now) == []

    def test_many_hosts_are_checked_a_few_at_a_time(self) -> None:
        now = timezone.now()
        identity = make_host("first", last_contact_at=now - timedelta(hours=1)).identity
        for _ in range(59):
            make_host(identity=identity, last_contact_at=now - timedelta(hours=1))

        claimed = [len(contact.claim_checks(now + timedelta(seconds=10 * beat))) for beat in range(20)]

        assert max(claimed) == 4
        assert sum(claimed) == 60


@pytest.mark.django_db(transaction=True)
class TestOnARealHost:
    def test_a_check_of_a_healthy_host_reports_no_failure(self, host: Host) -> None:
        assert {row["check"] for row in host.health} >= {"clock", f"free space for {host.data_dir}"}
        assert health.failed(host.health) == ""

    def test_a_disk_that_is_too_full_holds_the_queue_until_there_is_room(self, host: Host, admin: User) -> None:
        with override_settings(HEALTH_FREE_MIB=1 << 30):
            contact.check_host(host)
        campaign = campaigns.start(host, admin, time_s=1)
        campaigns.step()
        host.refresh_from_db()
        assert host.state == Host.State.UNFIT
        assert host.state_reason.startswith("free space for ")
        assert campaign.runs.filter(state=Run.State.QUEUED).count() == campaign.runs.count()
        page = browser(admin).get(f"/hosts/{host.name}/").content.decode()
        assert "free space for" in page
        assert "queued runs resume after the next successful check" in page

        contact.check_host(host)

        assert campaigns.finish(campaign).runs.get().outcome == Run.Outcome.OK

    def test_tick_alone_checks_hosts_as_well(self, host: Host) -> None:
        long_ago = timezone.now() - timedelta(hours=1)
        Host.objects.filter(pk=host.pk).update(last_contact_at=long_ago, health_checked_at=long_ago, health=[])

        call_command("tick")

        host.refresh_from_db()
        assert host.health
        assert host.last_contact_at and host.last_contact_at > long_ago

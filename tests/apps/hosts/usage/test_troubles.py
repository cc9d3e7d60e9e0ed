"""Problems that runs leave on hosts: recorded once, and shown until a user or a release resolves them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry, Role, User
from apps.campaigns.execution import run_end
from apps.hosts import contact, services
from apps.hosts.models import Host, Trouble
from common.errors import PlanError, RoleError
from tests.rows import filled, populate
from tests.rows.factories import browser, make_campaign, make_host

KEYS = [{"key": "/proc/sys/vm/swappiness", "original": "60", "ours": "1", "found": "10"}]
RUN = "3f0c1d2e-0000-4000-8000-000000000001"


def conflict(host: Host) -> Trouble:
    contact.report_trouble(host, RUN, Trouble.Kind.CONFLICT, KEYS)
    return Trouble.objects.get(run=RUN)


def test_a_run_that_is_reported_twice_is_one_trouble(db: None) -> None:
    host = make_host()

    conflict(host)
    conflict(host)

    assert Trouble.objects.count() == 1


def test_a_conflict_is_dismissed_once_and_written_down(operator: User) -> None:
    trouble = conflict(make_host())

    services.dismiss(trouble, by=operator)

    assert (trouble.closed_by, trouble.resolution) == (operator, f"dismissed by {operator}")
    entry = AuditEntry.objects.get(action="trouble.dismiss")
    assert entry.before == {"run": RUN, "keys": KEYS}
    with pytest.raises(PlanError, match="already resolved"):
        services.dismiss(trouble, by=operator)


def test_a_viewer_dismisses_nothing(viewer: User) -> None:
    with pytest.raises(RoleError):
        services.dismiss(conflict(make_host()), by=viewer)


def test_values_that_are_not_restored_cannot_be_dismissed(operator: User) -> None:
    contact.report_trouble(make_host(), RUN, Trouble.Kind.DIRTY)

    with pytest.raises(PlanError, match="is not restored: that cannot be dismissed"):
        services.dismiss(Trouble.objects.get(), by=operator)


def test_values_that_a_run_left_are_reported_also_without_evidence_of_a_conflict(db: None) -> None:
    """A control group that still exists was missing from the reason of the quarantine: its proof has no `conflict`."""
    run = make_campaign("running").runs.order_by("position")[0]
    details = [{}, {"conflict": False}, {"conflict": None}, {"conflict": True}]
    for seq, evidence in enumerate(details, 1):
        proof = {"setting": "cgroup", "phase": "restored", "subject": f"/group/{seq}", "wanted": "removed"}
        data = {**proof, "found": "still there", "ok": False, "evidence": evidence}
        run.events.create(seq=seq, at=timezone.now(), kind="proof", data=data)

    run_end.report_problems(run, {"conflicts": [], "clean": False, "error": None})

    assert [key["key"] for key in Trouble.objects.get().keys] == ["/group/1", "/group/2", "/group/3"]
    assert "/group/1, /group/2, /group/3" in Host.objects.get(pk=run.host_id).state_reason


def test_a_release_closes_the_problem_with_its_resolution(host: Host, admin: User) -> None:
    contact.report_trouble(host, RUN, Trouble.Kind.DIRTY, KEYS)
    contact.quarantine(host, "a test says so")
    services.release_host(host, by=admin)
    host.refresh_from_db()
    assert host.release_requested_at is not None

    contact.release_host(host)

    host.refresh_from_db()
    trouble = host.troubles.get()
    assert (host.state, host.release_requested_at) == (Host.State.READY, None)
    assert (trouble.closed_by, trouble.resolution) == (admin, "the agent found nothing left to restore")


def test_a_release_does_not_close_conflicts(host: Host) -> None:
    trouble = conflict(host)
    contact.quarantine(host, "a test says so")

    contact.release_host(host)

    trouble.refresh_from_db()
    assert trouble.closed_at is None


def test_the_api_lists_open_ones_and_dismisses(operator: User) -> None:
    trouble, client = conflict(make_host()), browser(operator)

    (row,) = client.get("/api/v1/troubles/?open=true").json()["results"]
    closed = client.post(f"/api/v1/troubles/{trouble.pk}/dismiss/").json()

    assert (row["keys"], row["kind"], row["run"]) == (KEYS, "conflict", RUN)
    assert closed["closed_by"] == operator.username
    assert client.get("/api/v1/troubles/?open=true").json()["results"] == []


def test_the_button_leads_back_to_where_it_was(client: Client, operator: User) -> None:
    trouble = conflict(make_host("db"))
    client.force_login(operator)

    answer = client.post(reverse("trouble_dismiss", args=[trouble.pk]), {"next": "/"})

    assert answer["Location"] == "/"
    again = client.post(reverse("trouble_dismiss", args=[trouble.pk]), {"next": "//evil.example"}, follow=True)
    assert again.redirect_chain[0][0] == reverse("host_detail", args=["db"])
    assert "already resolved" in again.content.decode()


@pytest.fixture
def team(db: None) -> dict[str, Any]:
    return filled.team()


def test_home_shows_values_that_were_not_restored_and_what_to_do(client: Client, team: dict[str, Any]) -> None:
    client.force_login(team["admin"])

    page = client.get("/").content.decode()

    assert [problem.host.name for problem in client.get("/").context["problems"]] == ["bench-04", "bench-01"]
    assert team["broken"].guard_command in page.replace("&#x27;", "'") or "guard --spool" in page
    assert "/proc/sys/vm/nr_hugepages" in page and "1871" in page
    assert "Release bench-04" in page
    assert "started by olga" in page


def test_only_an_admin_is_offered_the_release(client: Client, team: dict[str, Any]) -> None:
    client.force_login(team["operator"])

    page = client.get("/").content.decode()

    assert "An admin of your team can then release it" in page
    assert reverse("host_action", args=["bench-04", "release"]) not in page


def test_home_forgets_a_conflict_that_was_seen(client: Client, team: dict[str, Any]) -> None:
    services.dismiss(team["conflict"], by=team["operator"])
    client.force_login(team["operator"])

    assert [problem.host.name for problem in client.get("/").context["problems"]] == ["bench-04"]


@pytest.mark.thorough
def test_the_number_of_queries_of_home_does_not_grow_with_problems(
    client: Client, team: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    client.force_login(team["admin"])
    with CaptureQueriesContext(connection) as few:
        client.get("/")
    for number in range(12):
        host = populate.host(f"more-{number}", state=Host.State.QUARANTINED)
        contact.report_trouble(host, team["dirty_run"].pk, Trouble.Kind.CONFLICT, KEYS)
        contact.report_trouble(host, f"3f0c1d2e-0000-4000-8000-{number:012}", Trouble.Kind.DIRTY, KEYS)

    with django_assert_max_num_queries(len(few)):
        client.get("/")


def test_roles_of_the_page_are_those_of_the_service(client: Client, team: dict[str, Any]) -> None:
    client.force_login(populate.user(Role.VIEWER))

    assert client.post(reverse("trouble_dismiss", args=[team["conflict"].pk])).status_code == 403

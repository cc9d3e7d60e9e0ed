"""Hosts that no longer have the decided settings, and the decisions behind the present ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.configuration_drift import comparison, report
from apps.decisions.models import Decision
from apps.decisions.search import decided_settings
from apps.hosts import contact
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows.factories import FACTS, browser, make_campaign, make_host, make_profile

SWAPPINESS = Path("/proc/sys/vm/swappiness")
WANTED = {"sysctl": {"vm": {"swappiness": 10}}, "postgresql": {"work_mem": "64MB"}}
ROOT = FACTS | {"level": "root", "sysctls": {"vm.swappiness": "10", "vm.nr_hugepages": "0"}}


def decide(by: User, host: Host, settings: dict[str, Any] = WANTED) -> Decision:
    """Accepted, on a campaign whose profile says so on all levels."""
    profile = make_profile(settings=settings, by=by)
    campaign = make_campaign(Campaign.State.FINISHED, by=by, host=host, profile=profile)
    fields = {"title": "Swap late", "decision": "Swap late", "level": "1 cpu"}
    return services.accept_decision(services.write_decision(by=by, campaign=campaign, **fields), by=by)


def states(rows: list[comparison.ComparedValue]) -> dict[str, str]:
    return {row.key: row.state for row in rows}


def test_kernel_values_are_the_same_or_differ_and_others_are_not_comparable() -> None:
    changed = ROOT | {"sysctls": {"vm.swappiness": "60"}}

    assert states(comparison.rows(ROOT, WANTED)) == {"/proc/sys/vm/swappiness": "same", "work_mem": "not comparable"}
    (row, unread) = comparison.rows(changed, WANTED)
    assert (row.state, row.decided, row.found) == ("differs", "10", "60")
    assert "the host has no existing cluster" in unread.why


def test_values_read_from_the_host_override_its_facts() -> None:
    live = {"sysctl": {"value": {}, "keys": {"/proc/sys/vm/swappiness": "60"}, "refused": None}}

    assert states(comparison.rows(ROOT, WANTED, live))["/proc/sys/vm/swappiness"] == "differs"


def test_one_value_that_differs_is_enough_for_a_host() -> None:
    assert comparison.drift_state(comparison.rows(ROOT, WANTED)) == "not comparable"
    assert comparison.drift_state(comparison.rows(ROOT | {"sysctls": {"vm.swappiness": "1"}}, WANTED)) == "differs"
    assert comparison.drift_state([]) == "same"


def test_the_report_follows_the_facts_host_by_host(admin: User, client: Client) -> None:
    first, other, unseen = make_host("a", facts=ROOT), make_host("b", facts=ROOT), make_host("c", facts={})
    decision = decide(admin, first)
    decision.hosts.add(other, unseen)
    now = copy.deepcopy(ROOT) | {"sysctls": {"vm.swappiness": "60", "vm.nr_hugepages": "0"}}

    contact.record_facts(other, now)

    assert [(each.host.name, each.state) for each in report.host_drifts(decision)] == [
        *(("b", "differs"), ("a", "not comparable"), ("c", "not comparable")),
    ]
    client.force_login(admin)
    page = client.get(reverse("drift"), {"host": "b"}).content.decode()
    assert "b: 1 of 3 values" in page and "never checked" not in page
    drift = browser(admin).get(f"/api/v1/decisions/{decision.pk}/drift/").json()
    assert (drift[0]["host"], drift[0]["rows"][1]["actual"]) == ("b", "60")


def test_only_a_host_in_the_scope_is_queried(admin: User) -> None:
    decision = decide(admin, make_host("a", facts=ROOT))

    with pytest.raises(PlanError, match=r"b is not in the scope of Swap late \(one of a\)"):
        report.ask(decision, make_host("b"), by=admin)


@pytest.fixture
def swappiness(host_wide: None) -> Iterator[int]:
    """The present value, which is restored after the test."""
    before = SWAPPINESS.read_text()
    yield int(before)
    SWAPPINESS.write_text(before)


@pytest.mark.django_db(transaction=True)
def test_a_setting_that_was_changed_by_hand_is_found_on_a_real_host(swappiness: int, host: Host, admin: User) -> None:
    decision = decide(admin, host, {"sysctl": {"vm": {"swappiness": swappiness}}})
    assert report.host_drifts(decision)[0].differing == []

    SWAPPINESS.write_text(f"{swappiness + 7}\n")
    fresh = report.ask(decision, host, by=admin)

    (row,) = fresh.differing
    assert (row.key, row.decided, row.found) == (str(SWAPPINESS), str(swappiness), str(swappiness + 7))
    assert report.host_drifts(decision)[0].asked
    SWAPPINESS.write_text(f"{swappiness + 9}\n")
    contact.check_host(host)
    (stored,) = report.host_drifts(decision)
    assert (stored.asked, [row.found for row in stored.differing]) == (False, [str(swappiness + 9)])


def test_why_names_the_decisions_behind_a_setting_those_that_count_first(admin: User, client: Client) -> None:
    host = make_host("a", facts=ROOT)
    agreed = decide(admin, host)
    proposed = services.write_decision(
        by=admin, campaign=agreed.campaign, title="Another", decision="d", level="2 cpus", hosts=[make_host("b")]
    )

    decided = decided_settings.behind("sysctl.vm.swappiness")

    assert [(each.decision, each.decided) for each in decided] == [(agreed, 10), (proposed, 10)]
    assert [each.decision for each in decided_settings.behind("sysctl", host)] == [agreed]
    assert decided_settings.behind("sysctl.vm.swap") == []
    client.force_login(admin)
    page = client.get(reverse("why"), {"setting": "sysctl", "host": "a"}).content.decode()
    assert "Swap late" in page and "Another" not in page


def test_why_of_a_profile_shows_where_it_disagrees_with_decisions(admin: User) -> None:
    agreed = decide(admin, make_host("a", facts=ROOT))
    profile = make_profile("late", {"sysctl": {"vm": {"swappiness": 1}}, "postgresql": {"work_mem": "64MB"}}).profile

    rows = browser(admin).get(f"/api/v1/why/?profile={profile.pk}").json()

    assert [(row["path"], row["agrees"]) for row in rows] == [
        *(("postgresql.work_mem", True), ("sysctl.vm.swappiness", False)),
    ]
    assert {row["decision"] for row in rows} == {agreed.pk}


def test_decided_settings_are_exported_as_files(admin: User, client: Client) -> None:
    decision = decide(admin, make_host("a", facts=ROOT))
    client.force_login(admin)

    page = client.get(reverse("decision_export", args=[decision.pk, "ansible"]), {"host": "a"})
    exported = browser(admin).get(
        f"/api/v1/decisions/{decision.pk}/export/?host={decision.campaign.host_id}&file=sysctl"
    )

    assert f"decision-{decision.pk}-a-tasks.yml" in page.headers["Content-Disposition"]
    assert b'value: !unsafe "10"' in page.content
    assert b"vm.swappiness = 10" in exported.content and b"evidence sha256" in exported.content


def test_a_decision_without_settings_has_no_export(admin: User) -> None:
    decision = decide(admin, make_host("a", facts=ROOT))
    Decision.objects.update(settings={})

    with pytest.raises(PlanError, match="sets nothing"):
        services.export(Decision.objects.get(), decision.campaign.host, "shell")

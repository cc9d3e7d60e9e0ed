"""Checks before the start of a campaign: a failed one refuses the start, a doubtful one warns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.before_start import previews, validity
from apps.campaigns.design.before_start.feasibility import StartCheck
from apps.campaigns.design.steps import single
from apps.campaigns.library.workloads import save_workload
from apps.campaigns.models import Campaign
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows.factories import FACTS, browser, make_campaign, make_host, make_profile, make_workload
from tests.servers import machine


def checks_of(campaign: Campaign) -> dict[str, StartCheck]:
    return {check.check: check for check in validity.checks(campaign)}


def on(facts: dict[str, Any], admin: User, **fields: Any) -> Campaign:
    return make_campaign(by=admin, host=make_host(facts=facts, data_dir="/srv/pg/clusters"), **fields)


def test_a_host_that_has_it_all_passes(admin: User) -> None:
    rows = checks_of(on(machine.facts(), admin))

    assert {name: row.status for name, row in rows.items()} == dict.fromkeys(
        ("host", "facts", "space for data", "memory", "connections", "tools", "PostgreSQL and ports", "privileges"),
        "ok",
    )
    assert rows["tools"].actual == "pgbench 17.6"
    assert rows["space for data"].actual == "2,002.7 GiB free for /srv/pg/clusters"


@pytest.mark.parametrize(("free_kb", "status"), [(1_000, "failed"), (20_000, "doubtful"), (2_000_000, "ok")])
def test_space_for_the_data_is_checked_on_their_own_file_system(free_kb: int, status: str, admin: User) -> None:
    facts = machine.facts(
        file_systems=[{"mounted_on": "/", "free_kb": 10**9}, {"mounted_on": "/srv/pg", "free_kb": free_kb}]
    )

    assert checks_of(on(facts, admin))["space for data"].status == status


def test_data_that_are_there_already_need_no_room_of_their_own(admin: User) -> None:
    campaign = on(machine.facts(), admin, workload=make_workload(by=admin, scale=100))
    before = checks_of(campaign)["space for data"].wanted
    spec = previews.preview(campaign).runs[0].spec
    _pristine(campaign.host, spec["dataset"])

    assert (before, checks_of(campaign)["space for data"].wanted) == ("about 3.7 GiB", "about 2.2 GiB")


def _pristine(host: Host, dataset: dict[str, Any]) -> None:
    from agents.datasets import DATASETS
    from apps.campaigns.models import DataCopy

    fingerprint = DATASETS[dataset["kind"]].fingerprint(dataset["options"], 17)
    same = {"database": "ds", "target": {}, "recipe": {}, "major": 17}
    DataCopy.objects.create(host=host, home="/x", fingerprint=fingerprint, state=DataCopy.State.PRISTINE, **same)


@pytest.mark.parametrize(("buffers", "status"), [("16GB", "ok"), ("55GB", "doubtful"), ("80GB", "failed")])
def test_the_largest_cell_has_to_fit_into_memory(buffers: str, status: str, admin: User) -> None:
    profile = make_profile(settings={"postgresql": {"shared_buffers": buffers}})

    assert checks_of(on(machine.facts(), admin, profile=profile))["memory"].status == status


def test_memory_is_that_of_the_control_group_where_it_is_limited(admin: User) -> None:
    facts = machine.facts() | {"limits": {"memory_max_kb": 8 * 1024**2}}
    settings = {"postgresql": {"shared_buffers": "8GB", "work_mem": "64MB"}}

    rows = checks_of(sized(admin, settings, facts))

    assert (rows["memory"].status, rows["memory"].actual) == ("failed", "8.0 GiB of memory")
    assert (rows["memory of queries"].status, rows["memory of queries"].actual) == ("doubtful", "8.0 GiB of memory")


def sized(admin: User, settings: dict[str, Any], facts: dict[str, Any] | None = None, **options: Any) -> Campaign:
    """On a host of 62.8 GiB with two nodes, with these settings and these options of pgbench."""
    workload = make_workload(by=admin, **options)
    return on(facts or machine.facts(), admin, profile=make_profile(settings=settings, by=admin), workload=workload)


HUGE = "settings.huge_pages.pool"
PER_NODE = "settings.huge_pages.per_node"


@pytest.mark.parametrize(
    ("options", "status", "field", "value"),
    [
        ({"pool": 10_000_000}, "failed", HUGE, "10000000"),
        ({"pool": "10000000"}, "failed", HUGE, "10000000"),
        ({"pool": 60, "size": "1GB"}, "failed", HUGE, "60"),
        ({"pool": 27_500}, "doubtful", HUGE, "27500"),
        ({"pool": 8_000}, "ok", HUGE, "8000"),
        ({"pool": 10}, "failed", HUGE, "10"),  # less than shared_buffers
        ({"per_node": {"1": 16_000}}, "failed", PER_NODE, "16000"),
        ({"pool": 40_000, "nodes": "0-1"}, "failed", HUGE, "20000"),
        ({"pool": 2_000, "nodes": "all"}, "ok", HUGE, "1000"),
    ],
)
def test_a_pool_of_huge_pages_has_to_fit_into_memory(
    options: dict[str, Any], status: str, field: str, value: str, admin: User
) -> None:
    row = checks_of(sized(admin, {"huge_pages": {"use": "on", **options}}))["huge pages"]

    assert (row.status, row.field, row.value) == (status, field, value)


def test_a_pool_that_does_not_fit_is_shown_with_the_memory_of_the_host_and_the_largest_pool(admin: User) -> None:
    row = checks_of(sized(admin, {"huge_pages": {"use": "on", "pool": 10_000_000}}))["huge pages"]

    assert (row.actual, row.hint) == ("62.8 GiB of memory", "at most 28,916 pages of 2MB fit")
    assert row.wanted == "10,000,000 pages of 2MB, 19,531.2 GiB"


def test_pages_that_the_pool_has_already_fit(admin: User) -> None:
    facts = machine.facts()
    facts["huge_pages"]["sizes"][0]["total"] = 30_000

    assert checks_of(sized(admin, {"huge_pages": {"use": "on", "pool": 30_000}}, facts))["huge pages"].status == "ok"
    assert (
        checks_of(sized(admin, {"huge_pages": {"use": "on", "pool": 32_000}}, facts))["huge pages"].status == "failed"
    )


def test_pages_that_postgresql_counts_itself_are_not_judged(admin: User) -> None:
    assert "huge pages" not in checks_of(sized(admin, {"huge_pages": {"use": "on"}}))


@pytest.mark.parametrize(
    ("conf", "clients", "status"),
    [
        ({}, 97, "ok"),
        ({}, 98, "failed"),
        ({"max_connections": 20}, 18, "failed"),
        ({"max_connections": 1000}, 900, "ok"),
        ({"max_connections": 100, "reserved_connections": 50}, 60, "failed"),
    ],
)
def test_clients_have_to_fit_into_max_connections(conf: dict[str, Any], clients: int, status: str, admin: User) -> None:
    row = checks_of(sized(admin, {"postgresql": conf}, clients=clients))["connections"]

    assert (row.status, row.field, row.value) == (status, "workload.clients", str(clients))


def test_the_clients_of_a_level_count(admin: User) -> None:
    levels = [{"label": each, "set": {"workload.clients": int(each)}} for each in ("8", "400")]
    campaign = on(machine.facts(), admin, factors=[{"name": "clients", "levels": levels}])

    with pytest.raises(PlanError, match="max_connections 100, of which 3 are reserved; needs 400") as refused:
        services.start_campaign(campaign, by=admin)

    assert refused.value.subject == "workload.clients" and "raise max_connections" in refused.value.hint


@pytest.mark.parametrize(("work_mem", "status"), [("64MB", "ok"), ("4GB", "doubtful")])
def test_work_mem_of_all_clients_may_exceed_memory(work_mem: str, status: str, admin: User) -> None:
    row = checks_of(sized(admin, {"postgresql": {"work_mem": work_mem}}, clients=20))["memory of queries"]

    assert (row.status, row.field, row.value) == (status, "settings.postgresql.work_mem", work_mem)


@pytest.mark.parametrize(("most", "status"), [("1GB", "ok"), ("4TB", "doubtful")])
def test_wal_may_exceed_the_free_space(most: str, status: str, admin: User) -> None:
    assert checks_of(sized(admin, {"postgresql": {"max_wal_size": most}}))["space for WAL"].status == status


def test_the_draft_shows_its_duration_and_failed_checks_beside_start(admin: User, client: Client) -> None:
    campaign = sized(admin, {"huge_pages": {"use": "on", "pool": 10_000_000}})
    client.force_login(admin)

    shown = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    checks = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/checks/").json()

    actions = shown[shown.index('id="actions"') : shown.index("Start campaign</button>")]
    assert "runs, about" in actions and 'aria-describedby="refusal"' in actions
    assert "This campaign cannot start now." in shown and "At most 28,916 pages of 2MB fit" in shown
    row = next(check for check in checks if check["check"] == "huge pages")
    assert (row["field"], row["value"], row["ok"]) == (HUGE, "10000000", False)


def test_a_failed_check_refuses_the_start_and_names_what_to_do(admin: User) -> None:
    profile = make_profile(settings={"postgresql": {"shared_buffers": "80GB"}})
    campaign = on(machine.facts(), admin, profile=profile)

    with pytest.raises(PlanError, match="GiB of memory; needs 80") as refused:
        services.start_campaign(campaign, by=admin)

    assert (
        refused.value.subject == "settings.postgresql.shared_buffers" and "lower shared_buffers" in refused.value.hint
    )
    assert not campaign.runs.exists()


def test_a_doubtful_check_only_warns(admin: User) -> None:
    campaign = on(FACTS, admin)
    campaign.host.facts_history.update(seen_at=timezone.now() - timedelta(days=8))

    rows = checks_of(campaign)
    assert {name for name, row in rows.items() if row.status == "doubtful"} == {"facts", "space for data"}

    services.start_campaign(campaign, by=admin)
    assert campaign.state == Campaign.State.RUNNING


def test_a_host_in_quarantine_fails(admin: User) -> None:
    campaign = on(machine.facts(), admin)
    Host.objects.update(state=Host.State.QUARANTINED, state_reason="vm.nr_hugepages")
    campaign.refresh_from_db()

    assert checks_of(campaign)["host"].status == "failed"


def test_a_planning_error_is_listed_under_the_name_of_its_check(admin: User) -> None:
    campaign = on(machine.facts(), admin)
    facts = campaign.host.facts_history.get()
    facts.data["tools"], facts.data["postgresql"][0]["tools"] = {}, ["initdb", "postgres"]
    facts.save()

    row = validity.checks(campaign)[-1]

    assert (row.status, row.ok) == ("failed", False) and "pgbench" in row.actual


def test_page_and_api_show_them_before_the_start(admin: User, client: Client) -> None:
    campaign = on(machine.facts(), admin)
    client.force_login(admin)

    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    rows = browser(admin).get(f"/api/v1/campaigns/{campaign.pk}/checks/").json()

    assert "Checks before the start" in page and "space for data" in page
    assert {(row["check"], row["ok"], row["status"]) for row in rows} >= {("memory", True, "ok")}


def test_checks_read_the_current_state_of_hosts(host: Host, admin: User) -> None:
    campaign = make_campaign(
        by=admin,
        host=host,
        workload=save_workload("own", single("pgbench", {"script": "SELECT 1;", "time_s": 1}), by=admin),
    )
    campaign.host.facts_history.update(seen_at=timezone.now() - timedelta(days=30))

    rows = {each.check: each.status for each in validity.ask(campaign, by=admin)}

    assert (rows["host"], rows["facts"], rows["scripts"]) == ("ok", "ok", "ok")


def test_a_check_of_a_host_that_does_not_answer_is_doubtful(host: Host, admin: User) -> None:
    campaign = make_campaign(by=admin, host=host)
    Host.objects.filter(pk=host.pk).update(port=1)
    campaign.refresh_from_db()

    assert {each.check: each.status for each in validity.ask(campaign, by=admin)}["host"] == "doubtful"

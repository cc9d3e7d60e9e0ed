"""A campaign on a remote server: a real agent over SSH, a real server over TCP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Delivery, User
from apps.accounts.notices import channels
from apps.campaigns.design import targets
from apps.campaigns.design.before_start import checks
from apps.campaigns.design.before_start.previews import preview
from apps.campaigns.execution import by_hand
from apps.campaigns.models import Campaign, RunEvent
from apps.hosts import services
from apps.hosts.models import Host
from apps.hosts.usage import remote_servers
from common.errors import PlanError
from tests.agents.remote_servers import ADDRESS, PLAIN, SECRET, Served, created, running
from tests.rows.factories import make_campaign
from tests.servers import campaigns

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.needs("postgresql-15")]

SHOP = {"remote": "shop"}


def factor(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "levels": [{"label": value, "set": {f"settings.postgresql.{name}": value}}]}


@pytest.fixture
def served() -> Iterator[Served]:
    with created() as template, running(template) as server:
        yield server


@pytest.fixture
def shop(host: Host, admin: User, served: Served) -> Host:
    """The host, with the server as `shop`."""
    where = {"addresses": [ADDRESS], "port": served.port, "user": PLAIN, "sslmode": "prefer"}
    remote_servers.register(host, "shop", by=admin, password=SECRET[PLAIN], **where)
    return host


def wait_for_changes(host: Host, by: User) -> None:
    remote_servers.register(host, "shop", by=by, wait_minutes=10)


def test_a_server_is_checked_and_measured_with_proven_settings(
    shop: Host, admin: User, served: Served, client: Client
) -> None:
    before = served.snapshot()

    checked = services.query_remote_server(shop, "shop", by=admin)
    campaign = campaigns.finish(campaigns.start(shop, admin, factor("work_mem", "8MB"), target=SHOP, time_s=1))

    assert (checked.check_error, checked.checked["version"][:3]) == (None, "15.")
    run = campaign.runs.first()
    assert run is not None and (run.outcome, run.error) == ("ok", None)
    proofs = run.events.filter(kind="proof", data__subject="work_mem").values_list("data__phase", "data__ok")
    assert set(proofs) == {("before", True), ("after", True), ("restored", True)}
    assert run.measurements.filter(name="tps").exists()
    client.force_login(admin)
    page = client.get(reverse("run_detail", args=[run.pk]))
    assert page.status_code == 200 and SECRET[PLAIN] not in page.content.decode()
    assert served.snapshot() == before


def test_a_failed_check_stores_its_error_beside_the_earlier_answer(shop: Host, admin: User, served: Served) -> None:
    services.query_remote_server(shop, "shop", by=admin)
    served.sql(f"alter role {PLAIN} password 'another'")

    failed = services.query_remote_server(shop, "shop", by=admin)

    assert "password authentication failed" in failed.check_error["message"] and failed.check_error["hint"]
    assert failed.checked["version"].startswith("15.")


def test_a_parameter_that_needs_a_restart_is_refused_before_a_campaign_starts(shop: Host, admin: User) -> None:
    with pytest.raises(PlanError, match="needs a restart of the server"):
        campaigns.start(shop, admin, factor("shared_buffers", "32MB"), target=SHOP)


def test_a_campaign_waits_for_a_change_by_hand_and_lists_the_changes(
    shop: Host, admin: User, served: Served, client: Client
) -> None:
    wait_for_changes(shop, admin)
    channels.create(by=admin, name="chat", kind="chat", address="http://127.0.0.1:9/x", events=["run.waiting"])
    client.force_login(admin)

    campaign = campaigns.start(shop, admin, factor("shared_buffers", "32MB"), target=SHOP, time_s=1)
    campaigns.drive(campaign.runs.filter(agent_state="WAITING").exists)
    run = campaign.runs.get()
    page = client.get(reverse("campaign_detail", args=[campaign.pk])).content.decode()
    live = client.get(reverse("run_live", args=[run.pk])).json()
    served.configure("shared_buffers = 32MB")
    served.stop()
    served.start()
    campaigns.finish(campaign)

    assert "shared_buffers = 32MB (is 16MB)" in page and "waiting for a change by hand" in page
    assert (live["changes"], live["age_s"]) == (["shared_buffers = 32MB (is 16MB)"], None)
    assert [each.payload["changes"] for each in Delivery.objects.filter(kind="run.waiting")] == [live["changes"]]
    run.refresh_from_db()
    assert (run.outcome, run.error, by_hand.changes(run)) == ("ok", None, [])
    assert run.events.filter(kind="proof", data__subject="shared_buffers", data__ok=True).exists()


def test_runs_of_another_limit_are_planned_with_it(shop: Host, admin: User) -> None:
    without = targets.target(shop, shop.facts, SHOP)
    wait_for_changes(shop, admin)

    assert "wait_s" not in without
    assert targets.target(shop, shop.facts, SHOP) == without | {"wait_s": 600}


def test_a_host_that_reports_the_wait_repeatedly_sends_one_notification(admin: User) -> None:
    channels.create(by=admin, name="chat", kind="chat", address="http://127.0.0.1:9/x", events=["run.waiting"])
    run = make_campaign(Campaign.State.RUNNING).runs.get(position=0)

    for seq in (1, 2, 3):
        RunEvent.objects.create(run=run, seq=seq, at=timezone.now(), kind="state", data={"state": "WAITING"})
        by_hand.notify_waiting(run)

    assert Delivery.objects.count() == 1


def test_the_checks_count_the_changes_by_hand(shop: Host, admin: User) -> None:
    wait_for_changes(shop, admin)
    levels = [factor("shared_buffers", value)["levels"][0] for value in ("32MB", "64MB")]
    campaign = campaigns.start(shop, admin, {"name": "memory", "levels": levels}, target=SHOP)

    [row] = [each for each in checks.rows(campaign, preview(campaign)) if each.check == "changes by hand"]

    assert (row.status, row.actual) == (checks.DOUBTFUL, "up to 2, of shared_buffers")


def test_a_server_that_the_host_does_not_have_is_refused(shop: Host) -> None:
    with pytest.raises(PlanError, match="has no remote server 'other'") as refused:
        targets.target(shop, shop.facts, {"remote": "other"})

    assert "shop" in refused.value.hint

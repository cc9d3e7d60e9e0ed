"""Supervisors of runs on a host, restore on request, and the permission to restart it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, User
from apps.campaigns.execution import claims
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests.rows.factories import browser, make_host
from tests.servers import campaigns

HOSTS = "/api/v1/hosts/"


@pytest.fixture
def admin_client(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


def test_a_contact_records_the_supervisor(host: Host) -> None:
    assert (host.supervisor, host.units) == ("detached", "unavailable")


def test_units_are_refused_where_systemd_is_not_pid_1(host: Host, admin: User) -> None:
    answer = browser(admin).post(f"{HOSTS}{host.pk}/install-units/")

    assert answer.status_code == 400
    assert answer.json()["title"] == "units need root and a systemd that is PID 1"


def test_without_units_there_is_nothing_to_uninstall(host: Host, admin: User) -> None:
    assert browser(admin).post(f"{HOSTS}{host.pk}/uninstall-units/").json() == {"paths": []}
    assert AuditEntry.objects.filter(action="host.uninstall", target=str(host), after={"removed": []}).exists()


@pytest.mark.django_db(transaction=True)
def test_restore_reports_the_recovered_runs(host: Host, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "FOLLOW_S", 0.5)
    run = campaigns.start(host, admin, time_s=60).runs.get()
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state == "RUNNING")
    states = (Path(host.spool_dir) / f"jobs/{run.pk}/state.jsonl").read_text().splitlines()
    os.kill(json.loads(states[-1])["pid"], signal.SIGKILL)

    (recovered,) = browser(admin).post(f"{HOSTS}{host.pk}/restore/").json()["recovered"]

    assert (recovered["run"], recovered["outcome"], recovered["clean"]) == (str(run.pk), "interrupted", True)
    assert any(line.startswith("ended postgres") for line in recovered["did"])
    assert AuditEntry.objects.get(action="host.restore").after["recovered"][0]["did"] == recovered["did"]
    campaigns.finish(run.campaign)


def test_the_page_offers_the_units_that_the_host_can_have(admin_client: Client) -> None:
    for units, offered in (("absent", "install-units"), ("current", "uninstall-units"), ("unavailable", None)):
        supervisor = "systemd" if units == "current" else "detached"
        host = make_host(units=units, supervisor=supervisor, level="root", agent_digest="ab" * 32)

        page = admin_client.get(reverse("host_detail", args=[host.name])).content.decode()

        shown = [action for action in ("install-units", "uninstall-units") if f"/{action}/" in page]
        assert shown == ([offered] if offered else [])
        assert f"{host.python} -I {host.spool_dir}/agent/{'ab' * 32}.pyz guard" in page


def test_an_admin_allows_and_forbids_restarts(admin_client: Client) -> None:
    host = make_host()
    values = []

    for action in ("allow-reboots", "forbid-reboots"):
        admin_client.post(reverse("host_action", args=[host.name, action]))
        host.refresh_from_db()
        values.append(host.may_reboot)

    entries = AuditEntry.objects.filter(action="host.change", target=str(host)).order_by("pk")
    assert values == [True, False]
    assert [(e.before["may_reboot"], e.after["may_reboot"]) for e in entries] == [(False, True), (True, False)]


def test_an_operator_allows_nothing(client: Client, operator: User) -> None:
    host = make_host()
    client.force_login(operator)

    answer = client.post(reverse("host_action", args=[host.name, "allow-reboots"]))

    host.refresh_from_db()
    assert (answer.status_code, host.may_reboot) == (403, False)

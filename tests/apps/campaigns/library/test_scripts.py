"""The host's own pgbench checks scripts: on the page of the workload, in the API, and at the start of a campaign."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run, Workload
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows.factories import browser
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)
BROKEN = "select 1;\n\\set a random(1,)\n"
GOOD = "select 1;\n"


def workload(by: User, **options: Any) -> Workload:
    return workloads.save_workload("look-ups", single("pgbench", {"time_s": 1, **options}), by=by)


def draft(host: Host, by: User, written: Workload, *levels: dict[str, Any]) -> Campaign:
    made = [{"label": str(place), "set": level} for place, level in enumerate(levels or ({},))]
    factors = [{"name": "script", "levels": made}]
    return services.create_campaign(
        by=by, host=host, name="x", question="x?", workload=written, factors=factors, repetitions=1
    )


def test_a_campaign_with_a_broken_script_does_not_start(host: Host, admin: User) -> None:
    campaign = draft(host, admin, workload(admin, script=GOOD), {}, {"workload.script": BROKEN})

    with pytest.raises(PlanError, match="line 2: syntax error") as refused:
        services.start_campaign(campaign, by=admin)

    assert refused.value.subject == "steps.measure"
    campaign.refresh_from_db()
    assert (campaign.state, campaign.runs.count()) == (Campaign.State.DRAFT, 0)


def test_a_valid_script_starts_without_errors(host: Host, admin: User) -> None:
    assert services.start_campaign(draft(host, admin, workload(admin, script=GOOD)), by=admin) == ""


def test_a_host_that_does_not_answer_does_not_prevent_the_start(host: Host, admin: User) -> None:
    Host.objects.filter(pk=host.pk).update(port=1)
    host.refresh_from_db()
    client, campaign = browser(admin), draft(host, admin, workload(admin, script=BROKEN))

    started = client.post(f"/api/v1/campaigns/{campaign.pk}/start/").json()

    assert started["state"] == "running"
    assert started["unchecked"].startswith("The scripts were not checked: ")
    assert "at the beginning of each run" in started["unchecked"]


def test_the_agent_refuses_scripts_that_could_not_be_checked_before(host: Host, admin: User) -> None:
    campaign = draft(host, admin, workload(admin, script=BROKEN))
    Host.objects.filter(pk=host.pk).update(state=Host.State.UNREACHABLE)
    campaign.host.refresh_from_db()
    services.start_campaign(campaign, by=admin)
    Host.objects.filter(pk=host.pk).update(state=Host.State.READY)

    campaigns.finish(campaign)

    run = campaign.runs.get()
    assert run.outcome == Run.Outcome.FAILED
    assert "script, line 2: syntax error" in run.error["message"]
    assert not run.events.filter(kind="write").exists()


def test_the_api_has_every_error(host: Host, admin: User) -> None:
    client = browser(admin)
    scripts = [{"name": "a", "text": GOOD}, {"name": "b", "text": BROKEN}]

    checked = client.post(f"/api/v1/workloads/{workload(admin, scripts=scripts).pk}/check/", {"host": host.pk}).json()

    (complaint,) = checked["complaints"]
    assert (complaint["step"], complaint["script"], complaint["line"]) == ("measure", "b", 2)
    assert "error found here" in complaint["tool_message"] and checked["host"] == host.name
    sound = client.post(f"/api/v1/workloads/{workload(admin, script=GOOD).pk}/check/", {"host": host.pk}).json()
    assert sound["complaints"] == [] and sound["bin_dir"]


def test_the_page_of_a_workload_marks_the_line(client: Client, host: Host, admin: User) -> None:
    client.force_login(admin)
    written = workload(admin, script=BROKEN)

    page = client.post(reverse("workload_check", args=[written.pk]), {"host": host.pk}).content.decode()

    assert 'data-wrong="2 "' in page
    assert "script script, line 2: syntax error in command &quot;set&quot;" in page


def test_the_form_marks_the_line_and_saves_nothing(client: Client, host: Host, admin: User) -> None:
    client.force_login(admin)
    typed = {
        "name": "look-ups",
        "steps.0.kind": "pgbench",
        "steps.0.name": "measure",
        "steps.0.role": "measure",
        "steps.0.options.scripts": "-- script: a@3\r\nselect 1;\r\n-- script: b\r\nselect 1;\r\n\\foo\r\n",
        "check": "scripts",
        "host": str(host.pk),
    }

    answer = client.post(reverse("workload_add"), typed)

    assert answer.status_code == 422
    assert "line 5: invalid command in command &quot;foo&quot;" in answer.content.decode()
    assert not Workload.objects.exists()
    sound = client.post(reverse("workload_add"), typed | {"steps.0.options.scripts": "-- script: a\r\nselect 1;\r\n"})
    assert "reports no errors in these scripts, read by" in sound.content.decode()

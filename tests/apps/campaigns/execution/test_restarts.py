"""Campaigns that restart their host: their order of runs, permissions, and the wait of the server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import digest
from apps.accounts.models import User
from apps.campaigns import queries, services
from apps.campaigns.design import plan
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.request import Arrangement
from apps.campaigns.execution import claims, dispatch
from apps.campaigns.models import Run
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows import filled
from tests.rows.factories import FACTS, browser, end_run, make_campaign, make_host
from tests.servers import campaigns, remote

RESTART = {"name": "restart", "kind": "reboot", "options": {"limit_s": 1800}}


def root_host(**fields: Any) -> Host:
    return make_host(facts=FACTS | {"level": "root"}, level="root", **{"may_reboot": True, **fields})


@pytest.mark.parametrize(
    ("reboot", "restarted"),
    [("never", [0, 0, 0, 0]), ("each_repetition", [1, 0, 1, 0]), ("each_run", [1, 1, 1, 1])],
)
def test_the_host_is_restarted_in_front_of_the_runs_concerned(db: None, reboot: str, restarted: list[int]) -> None:
    campaign = make_campaign(host=root_host(), repetitions=2, reboot=reboot)

    runs = previews.preview(campaign).runs

    assert [run.spec["steps"].count(RESTART) for run in runs] == restarted
    assert all(run.spec["steps"][-1]["name"] == "measure" for run in runs)
    assert all(run.digest == digest(run.spec) for run in runs)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"may_reboot": False}, "must not be restarted"), ({"facts": FACTS, "may_reboot": True}, "level user")],
)
def test_a_host_that_may_or_can_not_is_refused(operator: User, fields: dict[str, Any], message: str) -> None:
    host = make_host(**{"facts": FACTS | {"level": "root"}, **fields})

    answer = browser(operator).post(
        "/api/v1/campaigns/", {"recipe": "cpu-scaling", "host": host.pk, "reboot": "each_run"}
    )

    assert (answer.status_code, answer.json()["field"]) == (400, "reboot")
    assert message in answer.json()["title"]


def test_an_unknown_restart_mode_is_refused() -> None:
    with pytest.raises(PlanError, match="'hourly' is not accepted"):
        plan.expand({}, Arrangement(factors=[], reboot="hourly"))


def test_the_preview_says_how_long_restarts_take_and_whether_that_is_known(client: Client, operator: User) -> None:
    host = root_host()
    known = make_campaign(host=host, reboot="each_run", repetitions=1)
    guessed = previews.preview(known)
    services.start_campaign(known, by=operator)
    for took_s, run in zip((40.0, 60.0), known.runs.all(), strict=True):
        run.manifest = {"timings": {"REBOOTING": took_s}}
        end_run(run)

    measured = previews.preview(known)

    assert (guessed.restarts, guessed.restart_s, guessed.restart_known) == (2, plan.REBOOT_S, False)
    assert (measured.restarts, measured.restart_s, measured.restart_known) == (2, 50.0, True)
    assert guessed.seconds - measured.seconds == 2 * (plan.REBOOT_S - 50)
    assert queries.restart_seconds(root_host()) is None


def test_the_form_previews_restarts(client: Client, operator: User) -> None:
    host = root_host()
    client.force_login(operator)
    typed = {
        "host": host.pk,
        "name": "n",
        "question": "q",
        "recipe": "cpu-scaling",
        "repetitions": 2,
        "delta": 2,
        "order": "randomised",
        "metric": "tps",
        "reboot": "each_repetition",
        "factor": "cpus",
        "level": "",
        "path": "settings.cpu_affinity.server",
        "value": "0",
    }

    page = client.post(reverse("campaign_preview"), typed).content.decode()

    assert "restarted 2 times, about 2 min each (estimate" in page


@pytest.fixture
def restarting(host: Host, admin: User) -> Run:
    """A run whose host went down a minute ago and does not answer."""
    run = campaigns.start(host, admin).runs.get()
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.RUNNING,
        started_at=now,
        agent_state="REBOOTING",
        step="restart",
        agent_state_at=now - timedelta(minutes=1),
        spec={**run.spec, "steps": [RESTART, *run.spec["steps"]]},
    )
    Host.objects.filter(pk=host.pk).update(port=1)
    return run


@pytest.mark.django_db(transaction=True)
def test_a_host_that_a_run_restarts_is_not_called_unreachable(restarting: Run) -> None:
    campaigns.step()

    run = Run.objects.get(pk=restarting.pk)
    assert (run.host.state, run.error) == (Host.State.READY, None)
    assert run.next_tick_at is not None and run.next_tick_at <= timezone.now() + timedelta(
        seconds=claims.RESTART_RETRY_S
    )


@pytest.mark.django_db(transaction=True)
def test_after_the_limit_the_run_fails_and_its_host_is_quarantined(restarting: Run) -> None:
    Run.objects.filter(pk=restarting.pk).update(agent_state_at=timezone.now() - timedelta(seconds=1801))

    campaigns.step()

    run = Run.objects.get(pk=restarting.pk)
    assert (run.state, run.outcome) == (Run.State.ENDED, Run.Outcome.FAILED)
    assert "did not answer within 1800 s of the restart" in run.error["message"]
    assert run.host.state == Host.State.QUARANTINED


@pytest.mark.django_db(transaction=True)
def test_a_host_that_comes_back_without_a_working_agent_ends_the_run_after_all_attempts(
    restarting: Run, server: remote.Server
) -> None:
    """Such a run was tried again every 5 s, for ever."""
    Host.objects.filter(pk=restarting.host_id).update(port=server.port, python="/bin/false")
    Run.objects.filter(pk=restarting.pk).update(agent_state_at=timezone.now() - timedelta(seconds=1801))

    states = []
    for _ in range(dispatch.MAX_ATTEMPTS):
        Run.objects.filter(pk=restarting.pk).update(next_tick_at=timezone.now())
        campaigns.step()
        states.append(Run.objects.get(pk=restarting.pk).state)

    run = Run.objects.get(pk=restarting.pk)
    assert states == [Run.State.RUNNING] * (dispatch.MAX_ATTEMPTS - 1) + [Run.State.ENDED]
    assert run.outcome == Run.Outcome.FAILED
    assert "its agent did not answer within 1800 s of the restart in step restart" in run.error["message"]
    assert run.host.state == Host.State.QUARANTINED


@pytest.mark.thorough
def test_the_run_s_page_says_since_when(client: Client, db: None) -> None:
    team = filled.team()
    client.force_login(team["operator"])
    run = team["live_run"]
    at = timezone.now().replace(hour=14, minute=2)
    Run.objects.filter(pk=run.pk).update(agent_state="REBOOTING", step="restart", agent_state_at=at)

    live = client.get(reverse("run_live", args=[run.pk])).json()
    page = client.get(reverse("run_detail", args=[run.pk])).content.decode()

    assert live["doing"] == "restarting the host since 14:02"
    assert live["doing"] in page


def test_a_restart_takes_time_and_measures_nothing() -> None:
    spec = {"steps": [{"name": "measure", "kind": "pgbench", "options": {"time_s": 5}}]}

    assert plan.seconds(plan.restarted(spec), overhead_s=3, reboot_s=100) == 5 + 3 + 100

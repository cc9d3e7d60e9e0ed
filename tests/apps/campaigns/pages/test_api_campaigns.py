"""Workloads, recipes, campaigns, runs and artefacts over the API."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent
from tests.rows.factories import (
    FACTORS,
    FACTS,
    browser,
    make_campaign,
    make_copy,
    make_host,
    make_profile,
    make_user,
    make_workload,
)

CAMPAIGNS, RUNS = "/api/v1/campaigns/", "/api/v1/runs/"


def test_a_changed_workload_is_the_next_revision(tuner: User) -> None:
    client = browser(tuner)
    body: dict[str, Any] = {"name": "look-ups", "kind": "pgbench", "options": {"builtin": "select-only"}}

    first = client.post("/api/v1/workloads/", body).json()
    second = client.post("/api/v1/workloads/", body | {"options": {"builtin": "select-only", "clients": 4}}).json()

    assert (first["revision"], second["revision"], second["author"]) == (1, 2, tuner.username)
    assert len(client.get("/api/v1/workloads/?name=look-ups").json()["results"]) == 2


def test_a_recipe_scales_to_the_host(viewer: User) -> None:
    client, host = browser(viewer), make_host()

    plain = client.get("/api/v1/recipes/cpu-scaling/").json()
    scaled = client.get(f"/api/v1/recipes/cpu-scaling/?host={host.pk}").json()

    assert plain["factors"][0]["generate"] == "cpu_doubling"
    assert [level["label"] for level in scaled["factors"][0]["levels"]] == ["1 cpu", "2 cpus", "4 cpus"]
    assert client.get("/api/v1/recipes/nonsense/").status_code == 404


def test_a_recipe_is_previewed_on_a_host(viewer: User) -> None:
    client, host = browser(viewer), make_host()

    planned = client.get(f"/api/v1/recipes/cpu-scaling/preview/?host={host.pk}").json()

    assert (len(planned["runs"]), planned["known"]) == (9, False)
    assert planned["seconds"] > 9 * 5
    assert client.get("/api/v1/recipes/cpu-scaling/preview/").json()["field"] == "host"
    assert not Campaign.objects.exists()


def test_a_campaign_from_a_recipe_is_planned_started_and_cancelled(operator: User) -> None:
    client, host = browser(operator), make_host()

    created = client.post(CAMPAIGNS, {"recipe": "cpu-scaling", "host": host.pk, "repetitions": 2, "seed": 7})
    assert created.status_code == 201, created.content
    draft = created.json()
    assert (draft["state"], draft["seed"], draft["repetitions"]) == ("draft", 7, 2)
    path = f"{CAMPAIGNS}{draft['id']}/"

    preview = client.get(f"{path}preview/").json()
    assert len(preview["runs"]) == 6
    assert preview["seconds"] == 6 * (5 + 3)
    assert preview["runs"][0]["levels"].keys() == {"server cpus"}

    started = client.post(f"{path}start/").json()
    assert (started["state"], started["progress"]["total"], started["results_ready"]) == ("running", 6, False)
    assert started["progress"]["eta_s"] == 48

    again = client.post(f"{path}start/")
    assert (again.status_code, again.json()["field"]) == (400, "state")

    cancelled = client.post(f"{path}cancel/").json()
    assert (cancelled["state"], cancelled["progress"]["done"]) == ("cancelled", 6)


def test_a_campaign_is_created_from_scratch(operator: User) -> None:
    body = {
        "host": make_host().pk,
        "name": "mine",
        "question": "Does it?",
        "workload": make_workload().pk,
        "profile": make_profile().pk,
        "factors": FACTORS,
        "order": "as_given",
        "delta": 0.05,
    }

    answer = browser(operator).post(CAMPAIGNS, body)

    assert answer.status_code == 201, answer.content
    created = answer.json()
    assert (created["order"], created["delta"], created["factors"]) == ("as_given", 0.05, FACTORS)
    assert created["profile"].endswith(" r1")


def test_from_scratch_everything_that_is_missing_is_named(operator: User) -> None:
    answer = browser(operator).post(CAMPAIGNS, {"host": make_host().pk})

    assert {each["field"] for each in answer.json()["errors"]} == {"name", "question", "workload", "factors"}


def test_a_level_that_sets_nothing_is_named_by_its_path(operator: User) -> None:
    factors = [{"name": "f", "levels": [{"label": "a", "set": {"nonsense": 1}}]}]

    answer = browser(operator).post(CAMPAIGNS, {"recipe": "cpu-scaling", "host": make_host().pk, "factors": factors})

    assert (answer.status_code, answer.json()["field"]) == (400, "factors.0.levels.0.set")


def test_a_recipe_that_the_host_cannot_run_is_refused_when_it_is_planned(operator: User) -> None:
    host = make_host(facts=FACTS | {"postgresql": []})

    answer = browser(operator).post(CAMPAIGNS, {"recipe": "cpu-scaling", "host": host.pk})

    assert (answer.status_code, answer.json()["field"]) == (400, "host")
    assert "install postgresql" in answer.json()["hint"]


def test_a_finished_campaign_says_whether_its_results_are_ready(viewer: User) -> None:
    campaign = make_campaign(Campaign.State.FINISHED)
    path = f"{CAMPAIGNS}{campaign.pk}/"

    shown = browser(viewer).get(path).json()
    assert (shown["results_ready"], shown["progress"]["eta_s"]) == (True, 0)

    campaign.runs.filter(position=0).update(ingested_at=None)
    assert browser(viewer).get(path).json()["results_ready"] is False


def test_campaigns_are_found_by_host_state_and_recipe(viewer: User) -> None:
    here = make_campaign()
    make_campaign(Campaign.State.RUNNING)
    client = browser(viewer)

    def ids(query: str) -> list[str]:
        return [row["id"] for row in client.get(f"{CAMPAIGNS}?{query}").json()["results"]]

    assert ids(f"host={here.host_id}") == ids("state=draft") == [str(here.pk)]
    assert ids("recipe=storage") == []


def test_runs_are_filtered_by_outcome_state_block_and_host(viewer: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING, runs=2)
    make_campaign(Campaign.State.FINISHED)
    client = browser(viewer)

    def count(query: str) -> int:
        return len(client.get(f"{RUNS}?campaign={campaign.pk}&{query}").json()["results"])

    assert (count(""), count("outcome=ok"), count("state=queued"), count("block=0")) == (6, 2, 4, 2)
    assert (count(f"host={campaign.host_id}"), count("host=9999")) == (6, 0)
    rows = client.get(f"{RUNS}?campaign={campaign.pk}").json()["results"]
    assert [row["position"] for row in rows] == list(range(6))
    assert "spec" not in rows[0]


def test_a_run_shows_its_spec(viewer: User) -> None:
    run = make_campaign(Campaign.State.RUNNING).runs.first()
    assert run is not None

    shown = browser(viewer).get(f"{RUNS}{run.pk}/").json()

    assert (shown["spec"], shown["digest"]) == (run.spec, run.digest)


def test_one_run_is_cancelled_and_its_campaign_continues(operator: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING)
    run = campaign.runs.order_by("position")[2]

    answer = browser(operator).post(f"{RUNS}{run.pk}/cancel/")

    assert (answer.json()["state"], answer.json()["outcome"]) == ("ended", "cancelled")
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.RUNNING
    assert browser(operator).post(f"{RUNS}{run.pk}/cancel/").json()["hint"] == "there is nothing to cancel"


def test_events_are_read_on_from_where_one_was(viewer: User) -> None:
    run = make_campaign(Campaign.State.RUNNING, runs=1).runs.get(state=Run.State.ENDED)
    RunEvent.objects.bulk_create(
        RunEvent(run=run, seq=seq, at=timezone.now(), kind="log", data={"message": str(seq)}) for seq in range(1, 6)
    )
    client = browser(viewer)

    first = client.get(f"{RUNS}{run.pk}/events/?limit=3").json()
    rest = client.get(f"{RUNS}{run.pk}/events/?limit=3&after={first['next_after']}").json()

    assert [event["seq"] for event in first["results"]] == [1, 2, 3]
    assert [event["seq"] for event in rest["results"]] == [4, 5]
    assert (first["ended"], rest["ended"], rest["next_after"]) == (False, True, 5)


def test_raw_output_is_downloaded_as_it_is_and_never_shown(viewer: User) -> None:
    run = make_campaign(Campaign.State.RUNNING, runs=1).runs.first()
    content = b"<script>alert(1)</script>\x1b[31m\xff"
    file = Artefact.objects.create(run=run, path='out/measure/std"out', size=28, sha256="0" * 64, content=content)

    answer = browser(viewer).get(f"/api/v1/artefacts/{file.pk}/download/", HTTP_ACCEPT="application/octet-stream")

    assert answer.content == content
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="std\\"out"'
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_file_that_was_not_fetched_names_the_reason(viewer: User) -> None:
    run = make_campaign(Campaign.State.RUNNING, runs=1).runs.first()
    file = Artefact.objects.create(run=run, path="out/measure/log", size=10**9, sha256="0" * 64)
    client = browser(viewer)

    assert client.get(f"/api/v1/artefacts/{file.pk}/").json()["fetched"] is False
    answer = client.get(f"/api/v1/artefacts/{file.pk}/download/")
    assert answer.status_code == 404
    assert "was not fetched: damaged, or too large" in answer.json()["title"]


def test_a_campaign_without_workload_profile_and_data_says_null(operator: User) -> None:
    host, dataset = make_host(), make_copy(by=make_user(Role.TUNER)).dataset
    made = browser(operator).post(f"/api/v1/datasets/{dataset.pk}/prepare/", {"host": host.pk}).json()

    row = next(
        each for each in browser(operator).get("/api/v1/campaigns/").json()["results"] if each["id"] == made["id"]
    )

    assert (made["workload"], made["profile"], row["workload"]) == (None, None, None)
    report = browser(operator).get(f"/api/v1/campaigns/{made['id']}/export/report.html/")
    assert report.status_code == 404

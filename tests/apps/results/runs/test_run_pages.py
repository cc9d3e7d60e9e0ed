"""The page of a run, live and afterwards, and its downloads."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.campaigns.models import Artefact, Run
from tests.rows import filled, populate


@pytest.fixture
def team(client: Client, db: None) -> dict[str, Any]:
    made = filled.team()
    client.force_login(made["operator"])
    return made


def test_live_updates_have_each_new_event_once(client: Client, team: dict[str, Any]) -> None:
    run = team["live_run"]
    url = reverse("run_live", args=[run.pk])

    first = client.get(url).json()
    again = client.get(url, {"after": first["seq"]}).json()

    assert first["seq"] == run.events.order_by("-seq")[0].seq
    assert [sample["t"] for sample in first["samples"] if sample["source"] == "pgbench"] == [1.0, 2.0, 3.0]
    assert first["progress"]["done"] == 1.0
    assert (again["samples"], again["lines"], again["seq"]) == ([], [], first["seq"])
    assert not again["ended"]


def test_a_queued_run_says_why_it_waits_and_when_its_chart_appears(client: Client, team: dict[str, Any]) -> None:
    page = client.get(reverse("run_detail", args=[team["queued_run"].pk])).content.decode()

    assert "Queued. A host runs one benchmark at a time" in page
    assert "The chart appears with the first sample." in page and "nothing was measured" not in page


def test_the_log_shows_the_actual_and_the_expected_value_of_a_proof(client: Client, team: dict[str, Any]) -> None:
    logs = [
        client.get(reverse("run_detail", args=[team[name].pk]), {"tab": "log"}).content.decode()
        for name in ("ok_run", "drifted_run")
    ]

    assert "cpu_affinity before, server: postmaster: 0,1, in effect" in logs[0]
    assert "always instead of never, NOT IN EFFECT" in logs[1]
    assert not any("wanted" in log for log in logs)


def test_the_number_of_queries_of_a_live_update_is_fixed(
    client: Client, team: dict[str, Any], django_assert_num_queries: Any
) -> None:
    url = reverse("run_live", args=[team["live_run"].pk])

    with django_assert_num_queries(5):  # session, user, run, the record of a viewer, events
        client.get(url)


def test_the_chart_of_a_live_run_is_drawn_from_its_samples(client: Client, team: dict[str, Any]) -> None:
    figure = client.get(reverse("run_figure", args=[team["live_run"].pk])).json()

    assert {trace.get("name"): len(trace["x"]) for trace in figure["data"]}["tps"] == 3


def settings_of(client: Client, run: Run) -> Any:
    return client.get(reverse("run_detail", args=[run.pk]), {"tab": "settings"})


def test_settings_show_expected_and_actual_values_by_phase_with_their_source(
    client: Client, team: dict[str, Any]
) -> None:
    answer = settings_of(client, team["ok_run"])

    report = answer.context["proof"]
    assert (report.status, len(report.settings)) == ("held", 4)
    page = answer.content.decode()
    assert "All 4 settings were in effect" in page
    assert "/proc/PID/numa_maps" in page and "node 1" in page and "2.1 GiB" in page
    assert "All changes of this run were restored" in page


def test_a_drift_is_named_on_the_page_of_its_run(client: Client, team: dict[str, Any]) -> None:
    page = settings_of(client, team["drifted_run"]).content.decode()

    assert "changed during the run, so the run does not count" in page
    assert "was never before the measurement and always after it" in page


def test_a_conflict_is_shown_on_every_tab_of_its_run(client: Client, team: dict[str, Any]) -> None:
    chart = client.get(reverse("run_detail", args=[team["conflict_run"].pk])).content.decode()
    page = settings_of(client, team["conflict_run"]).content.decode()

    assert "Another user or program changed the host during this run" in chart
    assert "conflict: not restored" in page and "/proc/sys/vm/swappiness" in page


def test_a_setting_that_ended_a_run_is_named_once_with_the_same_text_on_every_tab(
    client: Client, team: dict[str, Any]
) -> None:
    run = team["failed_run"]
    run.spec["settings"] = {"huge_pages": {"use": "on"}}
    expected, actual = "900 pages of 2048 kB", "0 pages, and 300 MB available"
    message = f"huge_pages is not in effect: it should be {expected}, but is {actual}"
    run.error = {"blame": "host", "message": message, "hint": "", "setting": "huge_pages"} | {
        "wanted": expected,
        "found": actual,
    }
    run.outcome = Run.Outcome.NOT_IN_EFFECT
    run.save()

    page = client.get(reverse("run_detail", args=[run.pk])).content.decode()
    settings = settings_of(client, run).content.decode()

    assert [text.count(each) for text in (page, settings) for each in (expected, actual)] == [1, 1, 1, 1]
    assert "not verified" not in settings and "never in effect" in settings


def test_a_run_without_samples_has_no_frame_of_a_chart(client: Client, team: dict[str, Any]) -> None:
    page = client.get(reverse("run_detail", args=[team["failed_run"].pk])).content.decode()

    assert "data-figure" not in page
    assert "This run failed, so it has no result" in page


def test_the_number_of_queries_of_the_settings_does_not_grow_with_proofs(
    client: Client, team: dict[str, Any], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(8):  # session, user, run, campaign, changes, neighbours, parts, all proofs
        settings_of(client, team["ok_run"])


def test_the_api_has_the_same_proof(client: Client, team: dict[str, Any]) -> None:
    proof = client.get(f"/api/v1/runs/{team['ok_run'].pk}/proof/").json()

    assert (proof["status"], proof["changes"][0]["state"]) == ("held", "put_back")
    numa = next(setting for setting in proof["settings"] if setting["name"] == "numa")
    first = numa["subjects"][0]["checks"][0]
    assert (first["phase"], first["read_from"]) == ("before", "/proc/PID/numa_maps")
    assert first["evidence"]["kb_per_node"]["shared"]["0"] == 2_202_009


def test_the_end_of_an_output_is_shown_as_text_without_escape_sequences(client: Client, team: dict[str, Any]) -> None:
    page = client.get(reverse("run_detail", args=[team["failed_run"].pk])).content.decode()

    assert "FATAL: &lt;b&gt;sorry" in page
    assert "\x1b" not in page


def test_a_closed_loop_is_called_one_on_its_page_and_by_the_api(client: Client, team: dict[str, Any]) -> None:
    run, sentence = (
        team["ok_run"],
        "Closed loop in step measure: a client starts a transaction when its previous one ends",
    )

    assert sentence in client.get(reverse("run_detail", args=[run.pk])).content.decode()
    assert client.get(f"/api/v1/runs/{run.pk}/").json()["loops"] == {"measure": "closed"}
    run.spec["steps"][0]["options"]["rate"] = 100
    run.save()

    assert sentence not in client.get(reverse("run_detail", args=[run.pk])).content.decode()
    assert client.get(f"/api/v1/runs/{run.pk}/").json()["loops"] == {"measure": "open"}


def test_an_artefact_is_a_download_that_no_browser_interprets(client: Client, team: dict[str, Any]) -> None:
    artefact = team["ok_run"].artefacts.get()
    Artefact.objects.filter(pk=artefact.pk).update(content=b"<script>alert(1)</script>")

    answer = client.get(reverse("run_artefact", args=[team["ok_run"].pk, artefact.pk]))

    assert answer.headers["Content-Disposition"] == 'attachment; filename="1-out-measure-stdout"'
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_an_artefact_with_a_name_outside_of_ascii_is_a_download_with_this_name(
    client: Client, team: dict[str, Any]
) -> None:
    artefact = team["ok_run"].artefacts.get()
    Artefact.objects.filter(pk=artefact.pk).update(path="out/Prüfung", content=b"x")

    answer = client.get(reverse("run_artefact", args=[team["ok_run"].pk, artefact.pk]))

    assert answer.headers["Content-Disposition"] == "attachment; filename*=utf-8''1-out-Pr%C3%BCfung"


def test_an_artefact_of_another_run_is_not_found(client: Client, team: dict[str, Any]) -> None:
    artefact = team["ok_run"].artefacts.get()

    assert client.get(reverse("run_artefact", args=[team["failed_run"].pk, artefact.pk])).status_code == 404


def test_the_csv_has_every_run_and_no_formulas(client: Client, team: dict[str, Any]) -> None:
    failed = team["failed_run"]
    Run.objects.filter(pk=failed.pk).update(error={"message": "=HYPERLINK(1)"})

    answer = client.get(reverse("campaign_csv", args=[failed.campaign_id]))

    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    assert len(rows) == 15
    assert {row["outcome"] for row in rows} == {"ok", "failed", "not_in_effect"}
    assert rows[failed.position]["error"] == "'=HYPERLINK(1)"
    assert float(rows[0]["measure.tps (1/s)"]) > 9000


def test_the_campaign_s_parts_are_sent_to_htmx_and_polling_ends_with_it(client: Client, team: dict[str, Any]) -> None:
    headers = {"HX-Request": "true"}

    moving = client.get(reverse("campaign_detail", args=[team["running"].pk]), headers=headers).content.decode()
    still = client.get(reverse("campaign_detail", args=[team["finished"].pk]), headers=headers).content.decode()

    assert "<html" not in moving and 'hx-trigger="refresh"' in moving
    assert "hx-trigger" not in still


@pytest.mark.thorough
def test_the_number_of_queries_of_the_campaign_page_does_not_grow_with_runs(
    client: Client, team: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    many = populate.finished(team["operator"], team["host"], repetitions=12)

    # Nothing is cached yet. Four queries make the key figures, two the duration of a run, three what changed, two the
    # schedules, one the search.
    with django_assert_max_num_queries(48):
        client.get(reverse("campaign_detail", args=[many.pk]))


def test_a_run_is_cancelled_by_an_operator_only(client: Client, team: dict[str, Any]) -> None:
    url = reverse("run_action", args=[team["live_run"].pk, "cancel"])
    viewer = Client()
    viewer.force_login(populate.user(Role.VIEWER))

    assert viewer.post(url).status_code == 403
    client.post(url)

    team["live_run"].refresh_from_db()
    assert team["live_run"].cancel_requested_at is not None

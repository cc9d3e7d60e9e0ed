"""Writing decisions, deciding on them, and discussing them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.accounts.templatetags.pages import figure
from apps.campaigns.design.steps import single
from apps.campaigns.library.workloads import save_workload
from apps.campaigns.models import Campaign, Run
from apps.decisions.models import Decision
from apps.hosts.services import archive_host
from tests.rows import filled
from tests.rows.factories import browser, make_campaign, make_twin, make_user


@pytest.fixture
def team(client: Client, db: None) -> dict[str, Any]:
    made = filled.team()
    client.force_login(made["tuner"])
    return made


def _url(campaign: Any) -> str:
    return f"{reverse('decision_new')}?campaign={campaign.pk}"


def test_a_decision_freezes_the_results_of_its_campaign(client: Client, team: dict[str, Any]) -> None:
    typed = {"title": "Two cpus", "decision": "PostgreSQL gets two.", "hosts": [team["host"].pk]}

    client.post(_url(team["finished"]), typed)

    written = Decision.objects.get(title="Two cpus")
    assert (written.status, written.question) == ("proposed", team["finished"].question)
    assert len(written.evidence["runs"]) == 15


def test_a_decision_freezes_the_fidelity_of_a_twin_and_shows_it_beside_the_verdict(
    client: Client, team: dict[str, Any]
) -> None:
    campaign = team["finished"]
    author = make_user(Role.TUNER)
    author.may_run_commands = True
    author.save()
    script = {"name": "s01", "weight": 1, "text": "select /* s01 */ 1;"}
    workload = save_workload("twin", single("pgbench", {"scripts": [script]}), by=author)
    twin = make_twin(workload=workload)
    Campaign.objects.filter(pk=campaign.pk).update(workload=twin.workload, dataset=twin.dataset)
    unknown = "The load is a twin of the database shop. Its fidelity is unknown: no run counted its statements."
    assert unknown in client.get(_url(campaign)).content.decode()

    client.post(_url(campaign), {"title": "Twin", "decision": "Yes.", "hosts": [team["host"].pk]})

    written = Decision.objects.get(title="Twin")
    assert written.evidence["twin"]["badge"] == "twin, fidelity unknown" and not written.evidence["twin"]["trusted"]
    twin.delete()  # the page shows what was frozen, not what would be computed now
    page = client.get(reverse("decision_detail", args=[written.pk])).content.decode()
    assert unknown in page and "<li>twin, fidelity unknown</li>" in page


def test_the_levels_to_choose_from_come_in_the_order_of_the_design(client: Client, team: dict[str, Any]) -> None:
    design = [level["label"] for level in team["finished"].factors[0]["levels"]]

    offered = client.get(_url(team["finished"])).context["form"].fields["level"].choices

    assert [label for label, _ in offered[1:]] == design


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"title": ""}, "title"), ({"review_on": "2001-01-01"}, "review_on"), ({"hosts": []}, "hosts")],
)
def test_an_error_is_shown_at_its_field(
    client: Client, team: dict[str, Any], changes: dict[str, Any], field: str
) -> None:
    typed = {"title": "Two cpus", "decision": "PostgreSQL gets two.", "hosts": [team["host"].pk]}

    answer = client.post(_url(team["finished"]), typed | changes)

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert b"PostgreSQL gets two." in answer.content


def test_no_decision_on_a_campaign_that_still_runs(client: Client, team: dict[str, Any]) -> None:
    typed = {"title": "Early", "decision": "Now.", "hosts": [team["host"].pk]}

    answer = client.post(_url(team["running"]), typed)

    assert answer.status_code == 422
    assert not Decision.objects.filter(title="Early").exists()


def test_an_accepted_decision_cannot_be_rejected(client: Client, team: dict[str, Any]) -> None:
    answer = client.post(reverse("decision_action", args=[team["decision"].pk, "reject"]), follow=True)

    team["decision"].refresh_from_db()
    assert team["decision"].status == Decision.Status.ACCEPTED
    assert b"message error" in answer.content


def test_a_comment_is_added_and_an_empty_one_refused_on_the_page(client: Client, team: dict[str, Any]) -> None:
    url = reverse("decision_action", args=[team["decision"].pk, "comment"])

    client.post(url, {"text": "But <b>why</b>?"})
    refused = client.post(url, {"text": " "})

    assert refused.status_code == 422
    assert b"But &lt;b&gt;why" in refused.content
    assert team["decision"].comments.count() == 2


def test_the_timeline_is_filtered_by_host_word_and_user(client: Client, team: dict[str, Any]) -> None:
    def titles(**query: Any) -> set[str]:
        entries = client.get(reverse("timeline"), query).context["entries"]
        assert [entry.at for entry in entries] == sorted((entry.at for entry in entries), reverse=True)
        return {str(entry.what) for entry in entries if not entry.event}

    agreed, elsewhere = team["decision"].title, "Huge pages on the old kernel"
    confirmation = f"{team['search']}: confirmation"  # of a search, only this
    here = {agreed, confirmation, *(team[each].name for each in ("finished", "storage", "split", "prepared"))}
    assert titles() == {*here, elsewhere, team["imported"].name}
    assert titles(host=team["host"].pk) == here
    assert titles(host=team["fresh"].pk) == set()
    assert titles(q="batch job") == {agreed}
    assert titles(by="olga") == {
        elsewhere,
        confirmation,
        *(team[each].name for each in ("finished", "prepared", "imported")),
    }


def test_home_lists_tasks_that_need_a_user(client: Client, team: dict[str, Any]) -> None:
    shown = client.get(reverse("home")).context

    tasks = {(open_task.kind, open_task.url_name) for open_task in shown["open_tasks"]}
    assert tasks == {("new", "host_detail"), ("failed", "campaign_detail"), ("stale", "decision_detail")}
    assert team["broken"] in [problem.host for problem in shown["problems"]]


def test_home_has_no_tasks_for_imported_campaigns(client: Client, team: dict[str, Any]) -> None:
    host = archive_host("of-old", by=team["admin"])
    campaign = make_campaign(Campaign.State.FINISHED, by=team["tuner"])
    campaign.runs.update(outcome=Run.Outcome.FAILED)
    Campaign.objects.filter(pk=campaign.pk).update(kind=Campaign.Kind.IMPORTED)

    tasks = client.get(reverse("home")).context["open_tasks"]

    assert not {host.name, campaign.pk} & {task.key for task in tasks}


def test_home_shows_the_newest_tps_of_active_runs(client: Client, team: dict[str, Any]) -> None:
    answer = client.get(reverse("home"), headers={"HX-Request": "true"}).content.decode()

    newest = team["live_run"].events.filter(kind="sample", data__source="pgbench").order_by("-seq")[0]
    assert f"{figure(newest.data['values']['tps'])} TPS" in answer
    assert "4 of 15" in answer and "<html" not in answer


def test_the_page_the_form_and_the_api_have_everything_that_users_write(client: Client, team: dict[str, Any]) -> None:
    texts = {name: f"text of {name}" for name in ("question", "options", "decision", "reasons")}
    values = {**texts, "review_on": "2999-01-31"}
    campaign = team["finished"]
    form = client.get(_url(campaign)).content.decode()

    posted = browser(team["tuner"]).post("/api/v1/decisions/", {"title": "Two", "campaign": str(campaign.pk), **values})
    client.post(_url(campaign), {"title": "Two cpus", "hosts": [team["host"].pk], **values})

    written = Decision.objects.get(title="Two cpus")
    page = client.get(reverse("decision_detail", args=[written.pk])).content.decode()
    assert tuple(values) == Decision.WRITTEN and '<input type="date" name="review_on"' in form
    for name, text in values.items():
        assert f'name="{name}"' in form and posted.json()[name] == str(getattr(written, name)) == text
        assert f"{text}<" in page

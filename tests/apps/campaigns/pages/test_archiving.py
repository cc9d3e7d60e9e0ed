"""Campaigns can be renamed, archived and unarchived; drafts can be deleted and edited."""

from __future__ import annotations

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, Team, User
from apps.campaigns import archiving, lifecycle
from apps.campaigns.history import history
from apps.campaigns.models import Campaign
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, make_campaign, make_host, make_user

pytestmark = pytest.mark.django_db
FINISHED = Campaign.State.FINISHED


@pytest.fixture
def finished(admin: User) -> Campaign:
    return make_campaign(FINISHED, by=admin)


def listed(user: User, **query: str) -> str:
    return browser(user).get(reverse("campaign_list"), query).content.decode()


def test_a_change_of_name_and_question_is_in_the_history(finished: Campaign, admin: User) -> None:
    before = finished.name

    archiving.rename_campaign(finished, by=admin, name=" Huge pages ", question="Do they help?")

    assert (finished.name, finished.question) == ("Huge pages", "Do they help?")
    last = history(finished)[-1]
    assert (last.what, last.detail.startswith(f"name: {before} → Huge pages; question:")) == ("was renamed", True)


@pytest.mark.parametrize(("name", "message"), [("", "it is empty"), ("x" * 121, "it has 121 characters")])
def test_a_name_that_cannot_be_leaves_the_old_one(finished: Campaign, admin: User, name: str, message: str) -> None:
    before = finished.name

    with pytest.raises(PlanError, match=message) as refused:
        archiving.rename_campaign(finished, by=admin, name=name, question="another")

    finished.refresh_from_db()
    assert (refused.value.subject, finished.name) == ("name", before)


def test_an_archived_campaign_leaves_home_and_the_list_and_stays_where_it_is(finished: Campaign, admin: User) -> None:
    archiving.archive_campaign(finished, by=admin)

    assert finished.name not in listed(admin)
    assert finished.name in listed(admin, state="archived")
    assert finished.name not in browser(admin).get(reverse("home")).content.decode()
    page = browser(admin).get(reverse("campaign_detail", args=[finished.pk])).content.decode()
    assert "Archived on" in page and "Unarchive" in page

    archiving.unarchive_campaign(finished, by=admin)

    assert finished.name in listed(admin)


def test_a_running_campaign_is_not_archived(admin: User) -> None:
    running = make_campaign(Campaign.State.RUNNING, by=admin)

    with pytest.raises(PlanError, match="only a campaign that has ended"):
        archiving.archive_campaign(running, by=admin)


def test_an_archived_campaign_is_not_retried(admin: User) -> None:
    campaign = make_campaign(FINISHED, by=admin)
    archiving.archive_campaign(campaign, by=admin)

    with pytest.raises(PlanError, match="unarchive it first"):
        lifecycle.retry_failed(campaign, by=admin)


def test_a_draft_is_deleted_and_the_audit_log_keeps_its_name(admin: User) -> None:
    draft = make_campaign(by=admin)

    archiving.delete_campaign(draft, by=admin)

    assert not Campaign.objects.filter(pk=draft.pk).exists()
    assert AuditEntry.objects.get(action="campaign.delete").target == draft.name


def test_a_started_campaign_cannot_be_deleted(finished: Campaign, admin: User) -> None:
    with pytest.raises(PlanError, match="archive the others"):
        archiving.delete_campaign(finished, by=admin)

    assert Campaign.objects.filter(pk=finished.pk).exists()


@pytest.mark.parametrize("act", [archiving.archive_campaign, archiving.delete_campaign])
def test_another_team_s_operator_changes_nothing(act: object, admin: User) -> None:
    campaign = make_campaign(FINISHED, by=admin, host=make_host(team=Team.objects.create(name="storage")))

    with pytest.raises(RoleError):
        act(campaign, by=make_user(Role.OPERATOR))  # type: ignore[operator]


def test_many_at_once_change_and_each_refusal_has_its_reason(finished: Campaign, admin: User) -> None:
    draft = make_campaign(by=admin)
    ticked = {"action": "archive", "campaign": [str(finished.pk), str(draft.pk)]}

    answer = browser(admin).post(reverse("campaigns_change") + "?sort=name", ticked, format="multipart", follow=True)

    assert answer.redirect_chain == [(reverse("campaign_list") + "?sort=name", 302)]
    text = answer.content.decode()
    assert f"Archived: {finished.name}." in text
    assert f"{draft.name}: " in text and "only a campaign that has ended can be archived" in text.lower()


@pytest.mark.parametrize(
    ("ticked", "message"),
    [
        ({"action": "archive"}, "No campaign is selected"),
        ({"action": "burn", "campaign": []}, "burn is not one of the available choices"),
        ({"action": "archive", "campaign": ["nonsense"]}, "nonsense"),
    ],
)
def test_an_invalid_bulk_action_gives_the_reason(admin: User, ticked: dict[str, object], message: str) -> None:
    assert (
        message
        in browser(admin).post(reverse("campaigns_change"), ticked, format="multipart", follow=True).content.decode()
    )


@pytest.mark.parametrize(
    ("sort", "names"),
    [("name", ["a", "b", "c"]), ("-name", ["c", "b", "a"]), ("", ["c", "a", "b"]), ("nonsense", ["c", "a", "b"])],
)
def test_the_list_is_sorted_by_a_column(admin: User, sort: str, names: list[str]) -> None:
    for name in ("b", "a", "c"):
        make_campaign(by=admin, name=f"campaign-{name}")

    page = listed(admin, sort=sort)

    assert sorted(names, key=lambda name: page.index(f">campaign-{name}<")) == names


def test_the_api_renames_archives_and_deletes(finished: Campaign, admin: User) -> None:
    api, draft = browser(admin), make_campaign(by=admin)
    one = f"/api/v1/campaigns/{finished.pk}/"

    assert api.patch(one, {"name": "Renamed"}).json()["name"] == "Renamed"
    assert api.post(f"{one}archive/").json()["archived_at"]
    assert [each["id"] for each in api.get("/api/v1/campaigns/?archived=true").json()["results"]] == [str(finished.pk)]
    assert api.post(f"{one}unarchive/").json()["archived_at"] is None
    assert api.delete(one).status_code == 400
    assert api.delete(f"/api/v1/campaigns/{draft.pk}/").status_code == 204


def test_saving_an_edited_draft_takes_its_place(admin: User) -> None:
    draft = make_campaign(by=admin, name="first thought")
    client = browser(admin)
    address = reverse("campaign_new") + f"?from={draft.pk}&replace=1"
    form = client.get(address).context["form"]
    typed = {name: form[name].value() for name in form.fields if form[name].value() not in (None, "")}
    rows = client.get(address).context["rows"]
    columns = {name: [getattr(row, name) for row in rows] for name in ("factor", "level", "path", "value")}

    answer = client.post(
        reverse("campaign_new"), {**typed, **columns, "from": str(draft.pk), "replace": "1"}, format="multipart"
    )

    assert answer.status_code == 302, answer.context["form"].errors
    made = Campaign.objects.get()
    assert (made.name, made.seed, made.pk != draft.pk) == ("first thought", draft.seed, True)

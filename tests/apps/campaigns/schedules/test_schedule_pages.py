"""Schedules through pages and API: both call the same services."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Team, User
from apps.campaigns.history import history
from apps.campaigns.models import Campaign, Schedule
from apps.campaigns.schedules import firing, services
from tests.rows.factories import browser, make_campaign, make_host

WINDOW = {"days": [0, 1], "from": "00:00", "to": "06:00"}
FORM = {"name": "nightly", "when": "daily 02:30", "time_zone": "Europe/Berlin", "late_by_min": "30"}


def create(by: User, campaign: Campaign | None = None, **fields: object) -> dict[str, object]:
    body = {"campaign": str((campaign or make_campaign()).pk), "name": "nightly", "when": "daily 02:30", **fields}
    response = browser(by).post("/api/v1/schedules/", body, format="json")
    assert response.status_code == 201, response.content
    return dict(response.json())


def test_the_api_creates_a_schedule_in_the_time_zone_of_the_host(operator: User) -> None:
    campaign = make_campaign(host=make_host(time_zone="Europe/Berlin"))

    made = create(operator, campaign, windows=[WINDOW])

    assert made["time_zone"] == "Europe/Berlin"
    assert (made["state"], made["late_by_min"], made["owner"]) == ("active", 30, operator.username)
    assert made["windows"] == [WINDOW]
    times = [datetime.fromisoformat(each) for each in made["next"]]
    assert [(time.hour, time.minute) for time in times] == [(2, 30)] * 3
    assert timezone.now() < times[0] < times[1] < times[2]


def test_the_api_names_the_field_that_is_wrong(operator: User) -> None:
    body = {"campaign": str(make_campaign().pk), "name": "nightly", "when": "now and then"}

    answer = browser(operator).post("/api/v1/schedules/", body, format="json")

    assert answer.status_code == 400
    assert "is not a valid time of a schedule" in answer.json()["title"]
    assert "daily 02:30" in answer.json()["hint"]


def test_the_api_changes_pauses_resumes_and_deletes(operator: User, tuner: User) -> None:
    url = f"/api/v1/schedules/{create(operator)['id']}/"
    client = browser(tuner)

    changed = client.patch(url, {"when": "weekly Sun 04:00"}, format="json").json()
    paused = client.post(f"{url}pause/").json()
    again = client.post(f"{url}pause/")
    resumed = client.post(f"{url}resume/").json()
    gone = client.delete(url)

    assert (changed["when"], changed["owner"]) == ("weekly Sun 04:00", tuner.username)
    assert (paused["state"], paused["next"]) == ("paused", [])
    assert again.status_code == 400
    assert "nightly is paused" in again.json()["title"]
    assert resumed["state"] == "active"
    assert gone.status_code == 204
    assert client.get("/api/v1/schedules/").json()["results"] == []
    assert client.get(url).json()["state"] == "deleted"


def test_the_api_lists_slots_newest_first(operator: User) -> None:
    schedule = Schedule.objects.get(pk=create(operator)["id"])
    firing.fire(schedule.pk, schedule.next_at)
    firing.fire(schedule.pk, schedule.next_at + timedelta(days=1))

    rows = browser(operator).get(f"/api/v1/schedules/{schedule.pk}/slots/").json()["results"]

    assert [row["outcome"] for row in rows] == ["skipped", "started"]
    assert rows[1]["campaign"] == str(Campaign.objects.get(slot__isnull=False).pk)
    assert rows[0]["reason"].endswith("still runs")


def test_lists_are_filtered_by_team(operator: User, admin: User) -> None:
    team, other = (Team.objects.create(name=name) for name in ("storage", "network"))
    create(admin, make_campaign(host=make_host(team=team), by=admin))
    client = Client()
    client.force_login(operator)

    counts = [
        len(browser(operator).get(f"/api/v1/schedules/?team={each.pk}").json()["results"]) for each in (team, other)
    ]
    shown = ["nightly" in client.get(reverse("schedule_list") + f"?team={each.pk}").text for each in (team, other)]

    assert (counts, shown) == ([1, 0], [True, False])


def test_the_button_repeat_leads_to_a_form_that_creates_a_schedule(operator: User) -> None:
    campaign = make_campaign(Campaign.State.FINISHED, host=make_host(time_zone="Europe/Berlin"))
    client = Client()
    client.force_login(operator)
    address = f"{reverse('schedule_add')}?campaign={campaign.pk}"

    linked = address in client.get(reverse("campaign_detail", args=[campaign.pk])).text
    form = client.get(address).text
    saved = client.post(address, FORM | {"days-0": ["0", "1"], "from": ["00:00"], "to": ["06:00"]})

    schedule = Schedule.objects.get()
    assert linked
    assert 'value="Europe/Berlin"' in form
    assert saved.headers["Location"] == reverse("schedule_detail", args=[schedule.pk])
    assert (schedule.owner, schedule.windows) == (operator, [WINDOW])
    assert [each.what for each in history(campaign)][-1] == "was put on a schedule"
    page = client.get(saved.headers["Location"]).text
    assert page.count(" 02:30 CE") == 3
    assert "Mon, Tue 00:00 to 06:00" in page


def test_a_refused_form_keeps_the_input(operator: User) -> None:
    client = Client()
    client.force_login(operator)
    address = f"{reverse('schedule_add')}?campaign={make_campaign().pk}"

    answer = client.post(address, FORM | {"when": "often", "days-0": ["2"], "from": ["20:00"], "to": ["25:00"]})

    assert answer.status_code == 422
    assert "is not a valid time of a schedule" in answer.text
    assert 'value="often"' in answer.text
    assert 'value="25:00"' in answer.text
    wrong = client.post(address, FORM | {"days-0": ["2"], "from": ["20:00"], "to": ["25:00"]})
    assert "is not a time of day" in wrong.text


def test_the_pages_change_and_delete_a_schedule(operator: User, tuner: User) -> None:
    schedule = Schedule.objects.get(pk=create(operator)["id"])
    client = Client()
    client.force_login(tuner)
    address = reverse("schedule_change", args=[schedule.pk])

    warned = "you own the schedule" in client.get(address).text
    client.post(address, FORM | {"when": "weekly Sun 04:00"})
    client.post(reverse("schedule_action", args=[schedule.pk, "pause"]))
    page = client.get(reverse("schedule_detail", args=[schedule.pk])).text
    client.post(reverse("schedule_action", args=[schedule.pk, "delete"]))

    schedule.refresh_from_db()
    assert warned
    assert "weekly Sun 04:00" in page
    assert "None: the schedule is paused." in page
    assert (schedule.owner, schedule.state) == (tuner, Schedule.State.DELETED)
    assert client.get(reverse("schedule_detail", args=[schedule.pk])).status_code == 200
    assert "nightly" not in client.get(reverse("schedule_list")).text


def test_a_stopped_schedule_says_why(operator: User) -> None:
    schedule = Schedule.objects.get(pk=create(operator)["id"])
    User.objects.filter(pk=operator.pk).update(is_active=False)
    firing.fire(schedule.pk, schedule.next_at)
    client = Client()
    client.force_login(User.objects.create_user("reader"))

    page = client.get(reverse("schedule_detail", args=[schedule.pk])).text

    assert "This schedule has stopped: the account of" in page


def test_a_campaign_of_a_schedule_names_it(operator: User) -> None:
    schedule = Schedule.objects.get(pk=create(operator)["id"])
    firing.fire(schedule.pk, schedule.next_at)
    client = Client()
    client.force_login(operator)

    page = client.get(reverse("campaign_detail", args=[schedule.slots.get().campaign_id])).text

    assert reverse("schedule_detail", args=[schedule.pk]) in page


@pytest.mark.parametrize("rows", [1, 4])
def test_the_list_and_the_page_take_few_queries(rows: int, operator: User, django_assert_num_queries: object) -> None:
    schedules = [
        services.create_schedule(make_campaign(), by=operator, name=f"nightly {n}", when="daily 02:30")
        for n in range(rows)
    ]
    for day in range(rows):
        firing.fire(schedules[0].pk, schedules[0].next_at + timedelta(days=day))
        Campaign.objects.filter(slot__isnull=False).update(state=Campaign.State.FINISHED)
    client = Client()
    client.force_login(operator)

    with django_assert_num_queries(3):  # type: ignore[operator]  # session, user, rows
        client.get(reverse("schedule_list"))
    with django_assert_num_queries(6):  # type: ignore[operator]  # and the runs of its campaigns, counted at once
        client.get(reverse("schedule_detail", args=[schedules[0].pk]))

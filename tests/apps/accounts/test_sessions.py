"""The list of a user's sessions, which can be ended one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry, Role, Session, User
from tests.rows import populate


@pytest.fixture
def user(db: None) -> User:
    return populate.user(Role.OPERATOR, "olga")


def log_in(agent: str) -> Client:
    client = Client(headers={"User-Agent": agent})
    client.post(reverse("login"), {"username": "olga", "password": populate.PASSWORD})
    return client


def test_a_login_says_from_where_and_with_what(user: User) -> None:
    here, _ = log_in("Firefox on the desk"), log_in("Safari on the train")

    shown = here.get(reverse("account")).content.decode()

    assert "Firefox on the desk" in shown and "Safari on the train" in shown and "127.0.0.1" in shown
    assert not any(key in shown for key in Session.objects.values_list("session_key", flat=True))


def test_the_session_of_this_browser_is_marked_and_has_no_button(user: User) -> None:
    here, _ = log_in("here"), log_in("there")
    mine, theirs = Session.objects.get(agent="here"), Session.objects.get(agent="there")

    shown = here.get(reverse("account")).content.decode()

    assert shown.count("this one") == 1
    assert reverse("session_end", args=[mine.public]) not in shown
    assert reverse("session_end", args=[theirs.public]) in shown


def test_ending_a_session_logs_that_browser_out(user: User) -> None:
    here, there = log_in("here"), log_in("there")
    theirs = Session.objects.get(agent="there")

    here.post(reverse("session_end", args=[theirs.public]))

    assert there.get(reverse("account")).status_code == 302
    assert here.get(reverse("account")).status_code == 200
    assert AuditEntry.objects.get(action="session.end").before == {"address": "127.0.0.1", "agent": "there"}


def test_all_others_are_ended_at_once(user: User) -> None:
    here, others = log_in("here"), [log_in("there"), log_in("elsewhere")]

    here.post(reverse("session_end_others"))

    assert [other.get(reverse("account")).status_code for other in others] == [302, 302]
    assert here.get(reverse("account")).status_code == 200


def test_a_user_cannot_end_the_session_of_another_user(user: User) -> None:
    mine = log_in("mine")
    theirs = Client()
    theirs.force_login(populate.user(Role.ADMIN, "ada"))
    session = Session.objects.get(user__username="olga")

    page = theirs.post(reverse("session_end", args=[session.public]))
    api = theirs.delete(f"/api/v1/sessions/{session.public}/")

    assert (page.status_code, api.status_code) == (404, 404)
    assert mine.get(reverse("account")).status_code == 200


def test_the_time_of_last_use_is_stored_every_five_minutes(user: User) -> None:
    here = log_in("here")
    Session.objects.update(seen_at=timezone.now() - timedelta(hours=1), created_at=timezone.now() - timedelta(days=1))

    here.get(reverse("account"))

    session = Session.objects.get()
    assert timezone.now() - session.seen_at < timedelta(minutes=1)
    assert timezone.now() - session.created_at > timedelta(hours=23)


def test_a_session_that_is_saved_again_stays_the_same_one(user: User) -> None:
    here = log_in("here")
    Session.objects.update(created_at=timezone.now() - timedelta(days=1))
    before = Session.objects.values_list("public", "created_at").get()

    session = here.session
    session["theme"] = "dark"
    session.save()

    assert Session.objects.values_list("public", "created_at").get() == before


def test_a_script_lists_and_ends_sessions(user: User) -> None:
    here, there = log_in("here"), log_in("there")

    listed = here.get("/api/v1/sessions/").json()["results"]
    gone = next(each["id"] for each in listed if each["agent"] == "there")
    here.delete(f"/api/v1/sessions/{gone}/")

    assert {each["agent"] for each in listed} == {"here", "there"}
    assert there.get(reverse("account")).status_code == 302

"""The palette: pages by role, exact titles first, runs by the beginning of their id."""

from __future__ import annotations

import pytest

from apps.accounts.models import Role, Team, User
from apps.campaigns.models import Campaign
from apps.decisions.search import palette
from tests.rows.factories import browser, make_campaign, make_host, make_member

PATH = "/api/v1/palette/"


def titles(text: str, user: User) -> list[tuple[str, str]]:
    return [(each.kind, each.title) for each in palette.find(text, user)]


def test_pages_and_actions_are_those_of_the_role(viewer: User, operator: User, admin: User) -> None:
    shown = {user: dict.fromkeys(title for _, title in titles("", user)) for user in (viewer, operator, admin)}

    assert "Hosts" in shown[viewer] and "New campaign" not in shown[viewer]
    assert "New campaign" in shown[operator] and "Add a host" not in shown[operator]
    assert {"Add a host", "Audit log", "Users"} <= set(shown[admin])


def test_an_admin_of_a_team_sees_its_actions_but_none_of_the_instance(db: None) -> None:
    shown = titles("", make_member(Team.objects.create(name="storage"), Role.ADMIN))

    assert ("action", "Create a profile") in shown
    assert not {("action", "Add a host"), ("page", "Users"), ("page", "Audit log")} & set(shown)


@pytest.mark.parametrize("typed", ["camp", "CAMPAIGNS", "campaigns"])
def test_a_prefix_leads_to_a_page(typed: str, viewer: User) -> None:
    assert titles(typed, viewer)[0] == ("page", "Campaigns")


def test_synonyms_lead_to_a_page(viewer: User) -> None:
    assert ("page", "Hosts") in titles("machi", viewer)


def test_the_exact_title_comes_first(admin: User) -> None:
    for name in ("Scaling of the pool", "Scaling", "Again scaling"):
        make_campaign(by=admin, name=name)
    make_host("scaling-host")

    shown = titles("scaling", admin)

    assert shown[0] == ("campaign", "Scaling")
    assert set(shown[1:3]) == {("host", "scaling-host"), ("campaign", "Scaling of the pool")}
    assert shown[-1] == ("search", "Search everything for “scaling”")


def test_a_host_of_the_typed_name_comes_before_a_page_that_begins_with_it(viewer: User) -> None:
    make_host("camp")

    assert titles("camp", viewer)[:2] == [("host", "camp"), ("page", "Campaigns")]


def test_settings_lead_to_their_row(viewer: User) -> None:
    first = palette.find("work_m", viewer)[0]

    assert (first.kind, first.title, first.path) == ("setting", "work_mem", "/settings/?q=settings.postgresql.work_mem")


def test_a_run_is_found_by_the_beginning_of_its_id(admin: User) -> None:
    run = make_campaign(Campaign.State.FINISHED, by=admin, name="Nightly").runs.first()
    assert run is not None

    for typed in (str(run.pk)[:8], str(run.pk)):
        places = [each for each in palette.find(typed, admin) if each.kind == "run"]
        assert [(place.title, place.path) for place in places] == [(str(run.pk), f"/runs/{run.pk}/")]
        assert "of Nightly" in places[0].detail


@pytest.mark.parametrize("typed", ["'; drop", "%", "x" * 500, "…", "a" * 33])
def test_odd_texts_raise_no_error(typed: str, viewer: User) -> None:
    assert browser(viewer).get(PATH, {"q": typed}).status_code == 200


def test_a_visitor_gets_nothing(db: None) -> None:
    from django.test import Client

    assert Client().get(PATH).status_code == 401

"""Saved views: accepted addresses, permissions, and the dashboard when an object no longer exists."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.campaigns.models import Campaign, Run
from apps.results.explore import chart_addresses, pins
from apps.results.models import Pin
from common.errors import PlanError, RoleError
from tests.apps.results.answers.history.test_baselines import QUIET, repeated
from tests.rows import pinned, populate, split
from tests.rows.factories import browser, make_host, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(admin: User) -> Campaign:
    return split.finished(admin, split.host())


@pytest.fixture
def run(admin: User) -> Run:
    """With samples of five seconds."""
    done = populate.finished(admin, populate.host(), repetitions=1, failed=0, not_in_effect=0)
    return done.runs.order_by("position")[0]


def explorer(campaign: Campaign, query: str = "") -> str:
    return reverse("campaign_explore", args=[campaign.pk]) + query


# An address from outside


def test_a_saved_address_includes_its_default_choices(campaign: Campaign) -> None:
    place, title = chart_addresses.complete(explorer(campaign, "?shape=heat&view=table&theme=dark"))

    query = "figure=measure.latency_avg&x=shared_buffers&colour=huge+pages&shape=heat&scale=absolute"
    assert place.address == explorer(campaign, f"?{query}")
    assert place.figure == reverse("campaign_explore_figure", args=[campaign.pk]) + f"?{query}"
    assert title == "Caches and huge pages: latency_avg (ms) by shared_buffers and huge pages"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://example.org/compare/", "is not an address of this server"),
        ("//example.org/compare/", "is not an address of this server"),
        ("/\\example.org/", "is not an address of this server"),
        ("javascript:alert(1)", "is not an address of this server"),
        ("compare/", "is not an address of this server"),
        ("/compare/\n", "is not an address of this server"),
        ("/compare/?figure=%00", "is not an address of this server"),
        ("/compare/?of=" + "A" * 3000, "is not an address of this server"),
        ("/nowhere/", "does not exist"),
        ("/hosts/", "is a page without a chart"),
        ("/api/v1/runs/", "is a page without a chart"),
    ],
)
def test_an_invalid_address_is_refused_with_the_accepted_ones(address: str, why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        chart_addresses.complete(address)

    assert refused.value.subject == "address"
    assert repr(address[:20])[:-1] in refused.value.message
    assert "/campaigns/ID/explore/?x=FACTOR, /compare/?of=A&of=B, /campaigns/ID/, /runs/ID/" in refused.value.hint
    assert refused.value.hint.endswith("/hosts/NAME/")


def test_an_address_of_an_object_that_does_not_exist_names_the_object(campaign: Campaign, run: Run) -> None:
    page, ran = (reverse(name, args=[of.pk]) for name, of in (("campaign_detail", campaign), ("run_detail", run)))
    refusals = {
        (reverse("run_detail", args=[campaign.pk]), ""): f"run {campaign.pk} does not exist",
        (reverse("campaign_detail", args=[run.pk]), ""): f"campaign {run.pk} does not exist",
        (page, "nines"): "'nines' is not a chart of that page",
        (f"{page}?host=0", ""): "host='0' is not a host of Caches and huge pages",
        (explorer(campaign, "?x=phase"), ""): "'phase' does not exist here",
        (f"{reverse('compare')}?of=host:nowhere&of=host:there", ""): "'host:nowhere' does not exist",
        (f"{ran}?from=9&to=2", ""): "from=9 must be less than to=2",
        (f"{ran}?panel=gpu", ""): "panel='gpu' is not a panel of that run",
        (f"{ran}?step=measure", "heat"): "step='measure' has no latency over time",
        ("/hosts/nowhere/", ""): "host nowhere does not exist",
        (f"/hosts/{run.host}/?baseline=abc", ""): f"baseline='abc' was not run repeatedly on {run.host}",
    }

    for (address, chart), why in refusals.items():
        with pytest.raises(PlanError, match=why) as refused:
            chart_addresses.complete(address, chart)
        assert refused.value.hint, address


def test_the_database_itself_keeps_no_address_of_another_server(operator: User) -> None:
    for address in ("https://example.org/", "//example.org/", "/\\example.org/", ""):
        with pytest.raises(IntegrityError), transaction.atomic():
            Pin.objects.create(title="p", address=address, chart="runs", by=operator)


@pytest.mark.thorough
def test_every_chart_of_every_page_is_drawn_where_its_place_says(
    client: Client, campaign: Campaign, run: Run, admin: User
) -> None:
    client.force_login(make_user(Role.VIEWER))
    again = make_host()
    repeated(again, admin, *QUIET, 10100)
    sides = pinned.comparison(campaign, "8GB, off", "8GB, on")
    of = {"compare": sides, "campaign_explore": explorer(campaign), "host_detail": f"/hosts/{again}/"}
    of |= {name: reverse(name, args=[each.pk]) for name, each in (("campaign_detail", campaign), ("run_detail", run))}

    for name, page in chart_addresses.PAGES.items():
        for chart in page.charts:
            if chart in ("heat", "spread"):  # of runs with a log, or of fio
                continue
            place, _ = chart_addresses.complete(of[name], chart)
            assert client.get(place.figure).status_code == 200, chart
            assert client.get(place.address).status_code == 200, chart
            assert not place.csv or client.get(place.csv).status_code == 200, chart


# What can be done with pins


def test_a_new_saved_view_has_the_title_of_its_page_and_is_last(campaign: Campaign, operator: User) -> None:
    first = pins.pin(by=operator, address=explorer(campaign), title="mine")

    second = pins.pin(by=operator, address=reverse("campaign_detail", args=[campaign.pk]), chart="differences")

    assert (first.position, second.position) == (1, 2)
    assert second.title == second.shows == "Caches and huge pages: differences"
    assert first.shows == "Caches and huge pages: latency_avg (ms) by shared_buffers and huge pages"


def test_a_comparison_says_which_side_is_which(campaign: Campaign) -> None:
    _, title = chart_addresses.complete(pinned.comparison(campaign, "8GB, off", "8GB, on", "1GB, on"))

    others = "shared_buffers=8GB, huge pages=on (B) and shared_buffers=1GB, huge pages=on (C)"
    sides = f"{others} against shared_buffers=8GB, huge pages=off (A)"
    assert title == f"Caches and huge pages: measure.latency_avg, {sides}"


def test_a_view_that_is_not_on_the_dashboard_has_its_link_all_the_same(
    client: Client, campaign: Campaign, operator: User
) -> None:
    saved = pins.pin(by=operator, address=explorer(campaign, "?x=@order"), dashboard=False)
    client.force_login(make_user(Role.VIEWER))

    answer = client.get(f"/v/{saved.pk}/")

    assert saved.position is None
    assert (answer.status_code, answer.headers["Location"]) == (302, saved.address)
    assert list(pins.dashboard()) == []


def test_charts_move_by_one_place_and_not_beyond_the_ends(campaign: Campaign, operator: User) -> None:
    one, two, three = (pins.pin(by=operator, address=explorer(campaign), title=title) for title in "123")

    pins.move(three, "up", by=operator)
    pins.move(one, "down", by=operator)

    assert [each.title for each in pins.dashboard()] == ["3", "1", "2"]
    with pytest.raises(PlanError, match="3 is already first"):
        pins.move(three, "up", by=operator)
    with pytest.raises(PlanError, match="2 is already last"):
        pins.move(two, "down", by=operator)


def test_charts_saved_at_the_same_position_can_still_be_distinguished(campaign: Campaign, operator: User) -> None:
    one, two = (pins.pin(by=operator, address=explorer(campaign), title=title) for title in "12")
    Pin.objects.update(position=1)

    pins.move(two, "up", by=operator)

    assert [each.title for each in pins.dashboard()] == ["2", "1"]
    assert Pin.objects.get(pk=one.pk).position == 2


def test_a_full_dashboard_takes_no_more_but_keeps_views(
    campaign: Campaign, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "MOST", 1)
    pins.pin(by=operator, address=explorer(campaign))

    with pytest.raises(PlanError, match="it already has 1 charts"):
        pins.pin(by=operator, address=explorer(campaign))

    pins.pin(by=operator, address=explorer(campaign), dashboard=False)


def test_title_and_note_of_a_saved_view_can_change_but_not_its_address(campaign: Campaign, operator: User) -> None:
    pin = pins.pin(by=operator, address=explorer(campaign))
    address = pin.address

    pins.change(pin, by=operator, title=" weekly ", note="look on Mondays", dashboard=False)

    pin.refresh_from_db()
    assert (pin.title, pin.note, pin.position, pin.address) == ("weekly", "look on Mondays", None, address)
    with pytest.raises(PlanError, match="title"):
        pins.change(pin, by=operator, title=" ")


def test_each_act_is_in_the_audit_log(campaign: Campaign, operator: User) -> None:
    first, pin = (pins.pin(by=operator, address=explorer(campaign), title=title) for title in ("a", "b"))
    pins.move(pin, "up", by=operator)
    pins.change(pin, by=operator, title="c")
    pins.remove(pin, by=operator)

    entries = AuditEntry.objects.filter(action__startswith="pin.").order_by("pk")
    assert [(each.action, each.target) for each in entries][1:] == [
        ("pin.create", "b"),
        ("pin.move", "b"),
        ("pin.change", "c"),
        ("pin.remove", "c"),
    ]
    assert entries[3].before["title"] == "b"
    assert {each.actor for each in entries} == {operator}
    assert list(Pin.objects.all()) == [first]


def test_a_viewer_can_see_saved_views_but_not_create_them(
    client: Client, campaign: Campaign, viewer: User, operator: User
) -> None:
    pin = pins.pin(by=operator, address=explorer(campaign))
    acts = [
        lambda: pins.pin(by=viewer, address=explorer(campaign)),
        lambda: pins.change(pin, by=viewer, title="x"),
        lambda: pins.move(pin, "up", by=viewer),
        lambda: pins.remove(pin, by=viewer),
    ]

    for act in acts:
        with pytest.raises(RoleError):
            act()

    client.force_login(viewer)
    assert client.post(reverse("pin_action", args=[pin.pk, "remove"])).status_code == 403
    assert client.get(reverse("pin_new", args=["explorer", explorer(campaign)[1:]])).status_code == 403
    assert b"data-pin " not in client.get(explorer(campaign)).content
    assert b"Remove" not in client.get(reverse("dashboard")).content


# Pages


def test_the_form_proposes_a_title_and_saves_the_view_in_its_address(
    client: Client, campaign: Campaign, operator: User
) -> None:
    client.force_login(operator)
    page = client.get(explorer(campaign, "?shape=lines")).content.decode()
    link = page.partition("data-pin href=")[2].split('"')[1].replace("&amp;", "&")

    form = client.get(link).context["form"]
    answer = client.post(link, {"title": form.initial["title"], "note": "", "dashboard": "on"})

    pin = Pin.objects.get()
    assert answer.headers["Location"] == f"/dashboard/#pin-{pin.pk}"
    assert pin.title == "Caches and huge pages: latency_avg (ms) by shared_buffers and huge pages"
    assert "shape=lines" in pin.address


def test_the_form_shows_the_error_in_an_address(client: Client, campaign: Campaign, operator: User) -> None:
    client.force_login(operator)

    for path, why in ((f"{explorer(campaign)[1:]}?x=phase", "phase"), ("hosts/", "is a page without a chart")):
        answer = client.get(f"/pin/explorer/{path}")
        assert answer.status_code == 422
        assert why in answer.content.decode()


def test_saved_views_are_found_by_their_title(client: Client, campaign: Campaign, operator: User) -> None:
    for title in ("Huge pages", "Drift"):
        pins.pin(by=operator, address=explorer(campaign), title=title, dashboard=False)
    client.force_login(operator)

    page = client.get(reverse("pin_list"), {"q": "drift"}).content.decode()

    assert "Drift" in page
    assert "Huge pages" not in page


def test_a_saved_view_of_a_removed_object_or_chart_says_so_and_can_be_removed(
    client: Client, campaign: Campaign, operator: User
) -> None:
    run = reverse("run_detail", args=[uuid4()])
    gone = {run: "time", reverse("campaign_detail", args=[uuid4()]): "levels", "/old/page/": "x", f"{run}?": "x"}
    gone |= {"/hosts/nowhere/?baseline=abc": "baseline"}
    for address, chart in gone.items():
        Pin.objects.create(title="old", address=address, chart=chart, position=1, by=operator)
    client.force_login(operator)

    page = client.get(reverse("dashboard"))

    assert page.status_code == 200
    assert page.content.decode().count("The chart cannot be drawn") == len(gone)
    assert client.get(reverse("pin_list")).status_code == 200
    for pin in Pin.objects.all():
        assert client.get(reverse("pin_edit", args=[pin.pk])).status_code == 200
        assert client.post(reverse("pin_action", args=[pin.pk, "remove"])).status_code == 302
    assert not Pin.objects.exists()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["dashboard", "pin_list"])
def test_more_pins_take_no_more_queries(
    client: Client, campaign: Campaign, run: Run, operator: User, name: str
) -> None:
    client.force_login(operator)
    pinned.dashboard(operator, campaign, run)

    few = _queries(client, name)
    for _ in range(3):
        pinned.dashboard(make_user(Role.OPERATOR), campaign, run)

    assert _queries(client, name) == few <= 6


def _queries(client: Client, name: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        client.get(reverse(name))
    return len(captured)


# The API


def test_the_api_pins_moves_changes_and_removes(campaign: Campaign, operator: User) -> None:
    api = browser(operator)
    made: list[dict[str, Any]] = []
    for title in ("a", "b"):
        answer = api.post("/api/v1/pins/", {"address": explorer(campaign), "title": title})
        assert answer.status_code == 201
        made.append(answer.json())
    first, second = made

    assert (second["link"], second["by"], second["dashboard"]) == (f"/v/{second['id']}/", operator.username, True)
    assert second["figure"].startswith(reverse("campaign_explore_figure", args=[campaign.pk]))
    assert api.post(f"/api/v1/pins/{second['id']}/move/", {"way": "up"}).json()["position"] == 1
    changed = api.patch(f"/api/v1/pins/{first['id']}/", {"dashboard": False, "address": "/hosts/"}).json()
    assert (changed["dashboard"], changed["address"]) == (False, first["address"])
    shown = api.get("/api/v1/pins/?dashboard=true").json()["results"]
    assert [each["title"] for each in shown] == ["b"]
    assert api.delete(f"/api/v1/pins/{first['id']}/").status_code == 204
    assert [each["title"] for each in api.get("/api/v1/pins/?title=B").json()["results"]] == ["b"]


def test_the_api_describes_the_accepted_addresses(operator: User) -> None:
    answer = browser(operator).post("/api/v1/pins/", {"address": "https://example.org/"})

    assert answer.status_code == 400
    assert "is not an address of this server" in str(answer.json())
    assert "/compare/?of=A&of=B" in str(answer.json())

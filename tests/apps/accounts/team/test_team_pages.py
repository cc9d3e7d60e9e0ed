"""Pages of teams, actions on objects of teams, and teams in the API."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Role, Team, User
from apps.accounts.team import teams
from apps.hosts.models import Host
from tests.rows.factories import browser, make_campaign, make_host, make_user
from tests.rows.factories import make_member as member

VIEWER, OPERATOR, TUNER, ADMIN = Role


def test_users_outside_of_a_team_can_read_its_objects(host: Host, viewer: User) -> None:
    assert [row["name"] for row in browser(viewer).get("/api/v1/hosts/").json()["results"]] == ["raid-01"]


def test_lists_are_filtered_by_team(host: Host, storage: Team, viewer: User) -> None:
    make_host("other")
    client = Client()
    client.force_login(viewer)

    rows = browser(viewer).get(f"/api/v1/hosts/?team={storage.pk}").json()["results"]
    page = client.get(reverse("host_list") + f"?team={storage.pk}").content.decode()

    assert [(row["name"], row["team"]) for row in rows] == [("raid-01", storage.pk)]
    assert ("raid-01" in page, "other" in page) == (True, False)


def test_an_invalid_number_does_not_filter_a_list(viewer: User) -> None:
    client = Client()
    client.force_login(viewer)

    page = client.get(reverse("campaign_list"), {"host": "²"})

    assert page.status_code == 200
    assert "Only campaigns on" not in page.content.decode()


def test_campaigns_are_of_the_team_of_one_of_their_hosts(host: Host, storage: Team, admin: User, viewer: User) -> None:
    elsewhere = make_host("elsewhere")
    own, partly, other = (make_campaign(host=each, by=admin) for each in (host, elsewhere, elsewhere))
    partly.further_hosts.add(host)
    client = Client()
    client.force_login(viewer)

    rows = browser(viewer).get(f"/api/v1/campaigns/?team={storage.pk}").json()["results"]
    page = client.get(reverse("campaign_list") + f"?team={storage.pk}").content.decode()

    assert {row["id"] for row in rows} == {str(own.pk), str(partly.pk)}
    assert [str(each.pk) in page for each in (own, partly, other)] == [True, True, False]
    assert "Only campaigns on hosts of the team storage" in page


def test_a_page_offers_only_actions_that_the_user_may_do(storage: Team, network: Team, admin: User) -> None:
    campaign = make_campaign(host=make_host(team=network), by=admin)
    url, start = reverse("campaign_detail", args=[campaign.pk]), f"/campaigns/{campaign.pk}/start/"

    def shown(user: User) -> bool:
        client = Client()
        client.force_login(user)
        return start in client.get(url).content.decode()

    assert not shown(member(storage, OPERATOR, house=OPERATOR))
    assert shown(member(network, OPERATOR))


def test_a_form_preselects_the_only_team_in_which_the_user_may_write(storage: Team, network: Team) -> None:
    client, by = Client(), member(storage, TUNER)
    client.force_login(by)

    form = client.get(reverse("profile_add")).context["form"]
    client.post(reverse("profile_add"), {"name": "direct-io", "team": storage.pk})
    client.post(reverse("profile_add"), {"name": "mine-too", "team": network.pk})

    assert (form["team"].value(), form.fields["team"].empty_label) == (storage.pk, None)
    assert list(teams.kinds()["profile"].objects.values_list("name", "team")) == [("direct-io", storage.pk)]


def test_a_new_campaign_offers_the_hosts_on_which_its_author_is_an_operator(storage: Team, network: Team) -> None:
    for name, team in (("raid-01", storage), ("switch-01", network), ("anybodys", None)):
        make_host(name, team=team)

    def offered(user: User) -> list[str]:
        client = Client()
        client.force_login(user)
        form = client.get(reverse("campaign_new") + "?recipe=cpu-scaling").context["form"]
        return sorted(host.name for host in form.fields["host"].queryset)

    assert offered(member(storage, OPERATOR)) == ["raid-01"]
    assert offered(member(storage, OPERATOR, house=OPERATOR)) == ["anybodys", "raid-01"]
    assert offered(member(storage, VIEWER, house=ADMIN)) == ["anybodys", "raid-01", "switch-01"]


def test_there_is_nothing_to_choose_without_teams(client: Client, tuner: User) -> None:
    client.force_login(tuner)

    assert "team" not in client.get(reverse("profile_add")).context["form"].fields


def test_the_account_page_lists_the_user_s_teams(client: Client, storage: Team) -> None:
    client.force_login(member(storage, OPERATOR))

    assert f'operator of <a href="/teams/{storage.pk}/">storage</a>' in client.get(reverse("account")).content.decode()


def test_the_page_of_a_team_is_where_its_admin_changes_it(client: Client, host: Host, storage: Team) -> None:
    lead, new = member(storage, ADMIN), make_user()
    client.force_login(lead)

    client.post(reverse("team_action", args=[storage.pk, "set-member"]), {"user": new.pk, "role": "operator"})
    page = client.get(reverse("team_detail", args=[storage.pk])).content.decode()
    refused = client.post(
        reverse("team_action", args=[storage.pk, "give"]), {"kind": "host", "name": host.name, "to": ""}
    )

    assert storage.memberships.get(user=new).role == OPERATOR
    assert f"/hosts/?team={storage.pk}" in page
    assert f"Remove {new.username} from the team" in page
    assert "Delete team" not in page
    assert refused.status_code == 403


def test_moving_objects_between_teams_is_offered_to_users_who_may(client: Client, storage: Team, network: Team) -> None:
    both = member(storage, ADMIN)
    Membership.objects.create(team=network, user=both, role=ADMIN)

    def offered(user: User) -> bool:
        client.force_login(user)
        return "Move in" in client.get(reverse("team_detail", args=[storage.pk])).content.decode()

    assert (offered(member(storage, ADMIN)), offered(both), offered(make_user(ADMIN))) == (False, True, True)


def test_the_page_moves_only_objects_of_the_team(client: Client, storage: Team, admin: User) -> None:
    client.force_login(admin)
    make_host("anybodys")

    client.post(reverse("team_action", args=[storage.pk, "give"]), {"kind": "host", "name": "anybodys", "to": ""})
    client.post(reverse("team_action", args=[storage.pk, "take"]), {"kind": "host", "name": "anybodys"})

    assert Host.objects.get(name="anybodys").team == storage
    assert AuditEntry.objects.filter(action="host.hand_over").count() == 1


def test_a_team_and_its_members_by_the_api(admin: User, viewer: User) -> None:
    client = browser(admin)

    made = client.post("/api/v1/teams/", {"name": "storage", "about": "disks"}).json()
    url = f"/api/v1/teams/{made['id']}/"
    joined = client.post(f"{url}members/", {"user": viewer.pk, "role": "tuner"}).json()
    renamed = client.patch(url, {"name": "disks"}).json()
    left = client.delete(f"{url}members/{viewer.pk}/").status_code
    gone = client.delete(url).status_code

    assert joined["members"] == [{"user": viewer.pk, "username": viewer.username, "role": "tuner"}]
    assert (renamed["name"], renamed["about"], left, gone) == ("disks", "disks", 204, 204)

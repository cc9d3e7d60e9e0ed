"""The role in a team applies to its objects, the role in the instance to all others."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Role, Team, User
from apps.accounts.services import require
from apps.accounts.team import teams
from apps.accounts.tokens.lifecycle import issue_token
from apps.campaigns import services as campaigns
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Workload
from apps.hosts.models import Host
from apps.hosts.services import add_host, archive_host, change_host
from apps.hosts.usage import reservations
from apps.tuning.services import create_profile, revise
from common.errors import PlanError, RoleError
from tests.rows.factories import (
    FACTORS,
    OPTIONS,
    browser,
    make_campaign,
    make_host,
    make_identity,
    make_profile,
    make_user,
    make_workload,
    script,
)
from tests.rows.factories import make_member as member

VIEWER, OPERATOR, TUNER, ADMIN = Role


# What a role is


def test_the_instance_role_counts_for_objects_of_no_team(storage: Team, tuner: User) -> None:
    anybodys = make_host()

    assert tuner.may(TUNER, anybodys)
    assert not member(storage, ADMIN).may(OPERATOR, anybodys)


def test_the_role_in_the_team_applies_to_objects_of_the_team(host: Host, storage: Team, tuner: User) -> None:
    assert member(storage, OPERATOR).may(OPERATOR, host)
    assert not member(storage, OPERATOR, house=TUNER).may(TUNER, host)
    assert tuner.may(VIEWER, host)
    assert not tuner.may(OPERATOR, host)


def test_an_instance_admin_is_admin_of_every_team(host: Host, admin: User) -> None:
    assert admin.may(ADMIN, host)


def test_a_deactivated_user_has_no_permission(host: Host, storage: Team) -> None:
    gone = member(storage, ADMIN)
    gone.is_active = False

    assert not gone.may(VIEWER, host)
    assert not gone.may_somewhere(VIEWER)


def test_a_campaign_needs_the_role_on_each_of_its_hosts(storage: Team, network: Team, admin: User) -> None:
    here, there = make_host(team=storage), make_host(team=network)
    placed = {"placement": Campaign.Placement.EACH, "further_hosts": [there]}
    campaign = make_campaign(host=here, by=admin, **placed)
    one, both = member(storage, OPERATOR), member(storage, OPERATOR)
    Membership.objects.create(team=network, user=both, role=OPERATOR)

    with pytest.raises(RoleError, match="in the team network; this needs operator there"):
        campaigns.cancel_campaign(campaign, by=one)
    campaigns.cancel_campaign(campaign, by=both)

    assert campaign.state == Campaign.State.CANCELLED


def test_a_campaign_is_not_planned_on_a_further_host_or_a_role_of_another_team(storage: Team, network: Team) -> None:
    here, there, by = make_host(team=storage), make_host(team=network), member(storage, OPERATOR)
    fields: dict[str, Any] = {"by": by, "host": here, "name": "c", "question": "q", "factors": FACTORS}
    fields |= {"workload": make_workload()}

    for way in ({"placement": "each", "further_hosts": [there]}, {"roles": {"client": there.pk}}):
        with pytest.raises(RoleError, match="viewer in the team network"):
            campaigns.create_campaign(**fields, **way)


def test_roles_that_name_no_host_are_for_the_planner_to_refuse(storage: Team) -> None:
    fields: dict[str, Any] = {"host": make_host(team=storage), "name": "c", "question": "q", "factors": FACTORS}

    for junk in ({"client": "x"}, {"standbys": 7}, {"standbys": [None, True, {}]}):
        with pytest.raises(PlanError, match="roles"):
            campaigns.create_campaign(**fields, by=member(storage, OPERATOR), workload=make_workload(), roles=junk)


def test_a_profile_and_a_workload_of_another_team_are_used_by_reading_them(
    storage: Team, network: Team, admin: User
) -> None:
    revision = create_profile("theirs", {"cpu_affinity": {"server": "0"}}, team=network, by=admin)
    theirs = workloads.save_workload("theirs", single("pgbench", OPTIONS), team=network, by=admin)

    made = make_campaign(by=member(storage, OPERATOR), host=make_host(team=storage), workload=theirs, profile=revision)

    assert made.state == Campaign.State.DRAFT


# What is said to whom it refuses


def test_the_refusal_names_team_role_and_the_admins_of_the_team(host: Host, storage: Team) -> None:
    Membership.objects.create(team=storage, user=make_user(VIEWER, "sina"), role=ADMIN)

    with pytest.raises(RoleError) as caught:
        reservations.give_up(host, by=make_user(OPERATOR, "otto"))

    assert caught.value.message == "otto is viewer in the team storage; this needs operator there"
    assert caught.value.hint == "an admin of the team can change it: sina"


def test_a_team_without_admins_refers_to_instance_admins(host: Host, operator: User) -> None:
    with pytest.raises(RoleError) as caught:
        require(operator, OPERATOR, "check host", on=host)

    assert caught.value.hint == "the team has no admin: an instance admin can change it"


# Tokens


@pytest.mark.parametrize(("role", "status"), [(VIEWER, 403), (OPERATOR, 202)])
def test_a_token_caps_the_role_in_a_team(host: Host, storage: Team, role: Role, status: int) -> None:
    owner = member(storage, TUNER)

    answer = script(owner, role).post(f"/api/v1/hosts/{host.pk}/check/")

    assert answer.status_code == status


def test_a_token_limits_an_instance_admin_on_objects_of_a_team(host: Host, admin: User) -> None:
    client = script(admin, OPERATOR)

    assert client.post(f"/api/v1/hosts/{host.pk}/check/").status_code == 202
    refused = client.patch(f"/api/v1/hosts/{host.pk}/", {"labels": ["x"]}, format="json")

    assert refused.status_code == 403
    assert "ada is operator; this needs admin" in refused.json()["title"]


def test_a_token_may_have_its_owners_highest_role_but_gives_no_more_in_the_instance(storage: Team) -> None:
    owner = member(storage, TUNER)

    client = script(owner, TUNER)
    with pytest.raises(RoleError):
        issue_token(owner, "more", ADMIN)

    assert client.post("/api/v1/profiles/", {"name": "p", "settings": {}}, format="json").status_code == 403
    own = {"name": "p", "settings": {}, "team": storage.pk}
    assert client.post("/api/v1/profiles/", own, format="json").status_code == 201
    me = client.get("/api/v1/me/").json()
    assert (me["role"], me["teams"]) == ("viewer", [{"id": storage.pk, "name": "storage", "role": "tuner"}])


def test_a_token_issues_none_above_its_own_role_in_a_team(storage: Team) -> None:
    client = script(member(storage, TUNER), OPERATOR)

    assert client.post("/api/v1/tokens/", {"name": "heir", "role": "tuner", "days": 1}).status_code == 403


# Actions on the instance


def test_a_team_admin_is_not_an_instance_admin(storage: Team) -> None:
    client, api = Client(), browser(member(storage, ADMIN))
    client.force_login(member(storage, ADMIN))

    pages = [client.get(reverse(name)).status_code for name in ("user_list", "audit_log", "identity_add")]
    calls = [api.get("/api/v1/audit/"), api.post("/api/v1/users/", {}), api.post("/api/v1/teams/", {"name": "x"})]

    assert pages == [403] * 3
    assert [answer.status_code for answer in calls] == [403] * 3


def test_results_are_not_imported_to_a_host_of_another_team(host: Host, operator: User) -> None:
    with pytest.raises(RoleError, match="team storage"):
        archive_host(host.name, by=operator)


# Members


def test_an_admin_of_a_team_manages_its_members(storage: Team) -> None:
    lead, new = member(storage, ADMIN), make_user(VIEWER, "nora")

    teams.set_member(storage, new, OPERATOR, by=lead)
    teams.set_member(storage, new, TUNER, by=lead)

    assert storage.memberships.get(user=new).role == TUNER
    entry = AuditEntry.objects.filter(action="team.member").first()
    assert entry is not None
    assert (entry.actor, entry.before) == (lead, {"role": "operator"})
    assert entry.after == {"team": storage.pk, "user": "nora", "role": "tuner"}


def test_a_tuner_of_a_team_does_not_manage_its_members(storage: Team, viewer: User) -> None:
    with pytest.raises(RoleError, match="is tuner in the team storage; this needs admin there"):
        teams.set_member(storage, viewer, OPERATOR, by=member(storage, TUNER))


def test_the_last_team_admin_may_leave_because_instance_admins_remain(storage: Team, admin: User) -> None:
    last = member(storage, ADMIN)

    teams.remove_member(storage, last, by=last)
    teams.set_member(storage, last, ADMIN, by=admin)

    assert AuditEntry.objects.filter(action="team.leave", actor=last).exists()


def test_a_deactivated_user_cannot_join_a_team(storage: Team, admin: User, viewer: User) -> None:
    User.objects.filter(pk=viewer.pk).update(is_active=False)
    viewer.refresh_from_db()

    with pytest.raises(PlanError, match="is switched off"):
        teams.set_member(storage, viewer, OPERATOR, by=admin)


# Whose a thing is


def test_an_admin_of_a_team_adds_hosts_to_it_and_nowhere_else(storage: Team) -> None:
    lead = member(storage, ADMIN)
    reached = {"address": "127.0.0.1", "user": "dba", "identity": make_identity()}

    added = add_host(by=lead, name="raid-02", team=storage, **reached)
    with pytest.raises(RoleError):
        add_host(by=lead, name="raid-03", **reached)

    assert added.team == storage


def test_a_host_is_not_reached_through_that_of_another_team(storage: Team, network: Team) -> None:
    reached = {"address": "127.0.0.1", "user": "dba", "identity": make_identity(), "jump": make_host(team=network)}

    with pytest.raises(RoleError, match=r"^connect through: .* in the team network"):
        add_host(by=member(storage, ADMIN), name="raid-02", team=storage, **reached)


def test_a_key_that_opens_hosts_of_others_reaches_none_for_a_team(storage: Team, client: Client) -> None:
    lead, own, shared = member(storage, ADMIN), make_identity("own"), make_identity("shared")
    make_host(identity=shared), make_host(identity=shared, team=storage)
    reached = {"address": "127.0.0.1", "user": "dba", "team": storage}
    client.force_login(lead)

    offered = client.get(reverse("host_add")).context["form"].fields["identity"].queryset
    with pytest.raises(RoleError, match=r"^use SSH key"):
        add_host(by=lead, name="raid-02", identity=shared, **reached)
    added = add_host(by=lead, name="raid-02", identity=own, **reached)
    with pytest.raises(RoleError, match=r"^use SSH key"):
        change_host(added, by=lead, identity=shared)

    assert list(offered) == [own]


def test_a_host_changes_teams_by_an_admin_of_both(host: Host, storage: Team, network: Team) -> None:
    one, both = member(storage, ADMIN), member(storage, ADMIN)
    Membership.objects.create(team=network, user=both, role=ADMIN)

    for to in (network, None):
        with pytest.raises(RoleError):
            change_host(Host.objects.get(pk=host.pk), by=one, team=to)
    change_host(host, by=both, team=network)

    host.refresh_from_db()
    assert host.team == network
    entry = AuditEntry.objects.filter(action="host.change").first()
    assert entry is not None
    assert (entry.before["team"], entry.after["team"]) == ("storage", "network")


def test_every_revision_of_a_name_is_handed_over(storage: Team, admin: User) -> None:
    make_workload("mixed", by=admin)
    newest = make_workload("mixed", by=admin, clients=4)

    teams.hand_over(teams.owned_by_name("workload", "mixed"), storage, by=admin)

    assert set(Workload.objects.filter(name="mixed").values_list("revision", "team")) == {
        (1, storage.pk),
        (2, storage.pk),
    }
    entry = AuditEntry.objects.filter(action="workload.hand_over").first()
    assert entry is not None
    assert (entry.before, entry.after) == ({"team": ""}, {"id": newest.pk, "team": "storage"})


def test_a_further_revision_stays_the_teams(storage: Team, admin: User) -> None:
    first = workloads.save_workload("mixed", single("pgbench", OPTIONS), team=storage, by=admin)
    by = member(storage, TUNER)

    second = workloads.save_workload("mixed", single("pgbench", OPTIONS | {"clients": 4}), by=by)

    assert (second.revision, second.team_id) == (first.revision + 1, storage.pk)


def test_a_known_name_is_not_taken_by_naming_another_team(storage: Team, network: Team, admin: User) -> None:
    workloads.save_workload("mixed", single("pgbench", OPTIONS), team=storage, by=admin)

    with pytest.raises(PlanError, match="mixed is owned by the team storage"):
        workloads.save_workload("mixed", single("pgbench", OPTIONS | {"clients": 4}), team=network, by=admin)


def test_a_recipe_writes_no_revision_of_a_teams_workload(storage: Team, admin: User, operator: User) -> None:
    workloads.save_workload("cpu-scaling", single("pgbench", OPTIONS), team=storage, by=admin)

    with pytest.raises(RoleError, match="team storage; this needs tuner there"):
        campaigns.create_from_recipe(by=operator, host=make_host(), recipe="cpu-scaling")


def test_a_team_is_removed_when_nothing_belongs_to_it(host: Host, storage: Team, admin: User) -> None:
    with pytest.raises(PlanError, match="storage owns 1 host"):
        teams.remove_team(storage, by=admin)
    teams.hand_over(host, None, by=admin)
    teams.remove_team(storage, by=admin)

    assert not Team.objects.filter(name="storage").exists()


def test_a_name_is_one_teams_only(storage: Team, admin: User) -> None:
    with pytest.raises(PlanError, match="name"):
        teams.create_team("storage", by=admin)


# What it costs


def test_roles_in_teams_are_read_once_per_request_and_only_for_objects_of_teams(
    host: Host, storage: Team, operator: User, admin: User
) -> None:
    def queries(user: User, *things: Host) -> int:
        fresh = User.objects.get(pk=user.pk)
        with CaptureQueriesContext(connection) as captured:
            for thing in things:
                fresh.may(OPERATOR, thing)
                fresh.may_somewhere(ADMIN) if thing.team_id else None
        return len(captured)

    anybodys = make_host()

    assert queries(operator, anybodys, anybodys) == 0
    assert queries(operator, host, host, anybodys) == 1
    assert queries(admin, host, host) == 0


def test_a_revision_is_for_tuners_of_the_profiles_team(storage: Team, admin: User, tuner: User) -> None:
    theirs = make_profile(by=admin).profile
    teams.hand_over(theirs, storage, by=admin)

    with pytest.raises(RoleError, match="this needs tuner there"):
        revise(theirs, {"cpu_affinity": {"server": "1"}}, by=tuner)
    assert revise(theirs, {"cpu_affinity": {"server": "1"}}, by=member(storage, TUNER)).number == 2

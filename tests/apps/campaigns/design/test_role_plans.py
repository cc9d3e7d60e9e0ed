"""Roles of hosts in a run on several hosts, and the plan for each, from facts alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns import services
from apps.campaigns.design.before_start import previews
from apps.campaigns.models import Campaign, RunPart
from apps.campaigns.pages.forms import CampaignForm
from apps.hosts.models import Host
from apps.results.exchange import exports
from common.errors import PlanError
from tests.rows.factories import FACTS, make_host, make_user, make_workload

Hosts = dict[str, Host]
TOOLS = ["initdb", "pg_basebackup", "pgbench", "postgres", "psql"]
CAPABLE = {**FACTS, "postgresql": [{**FACTS["postgresql"][0], "tools": TOOLS}]}

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> User:
    return make_user(Role.OPERATOR)


@pytest.fixture
def hosts() -> Hosts:
    return {name: make_host(name, facts=CAPABLE) for name in ("server", "client", "one", "two")}


def draft(hosts: Hosts, by: User, roles: dict[str, Any], changes: dict[str, Any], **options: Any) -> Campaign:
    """A campaign of one level that makes these changes, planned when it was created."""
    return services.create_campaign(
        by=by,
        host=hosts["server"],
        name="roles",
        question="who does what?",
        workload=make_workload(**options),
        factors=[{"name": "level", "levels": [{"label": "as set", "set": changes}]}],
        repetitions=1,
        roles=meant(hosts, roles),
    )


def meant(hosts: Hosts, roles: dict[str, Any]) -> dict[str, Any]:
    """With ids in the place of names."""
    keys = {name: host.pk for name, host in hosts.items()}
    resolved = dict(roles)
    if "client" in resolved:
        resolved["client"] = keys.get(resolved["client"], resolved["client"])
    if "standbys" in resolved:
        resolved["standbys"] = [keys[name] for name in resolved["standbys"]]
    if "addresses" in resolved:
        resolved["addresses"] = {str(keys[name]): address for name, address in resolved["addresses"].items()}
    return resolved


def test_each_host_gets_its_own_part(hosts: Hosts, operator: User) -> None:
    roles = {"client": "client", "standbys": ["one"], "port": 6000, "addresses": {"server": "127.0.0.2"}}
    changes = {
        "settings.postgresql": {"work_mem": "8MB", "synchronous_standby_names": "*"},
        "settings.cpu_affinity": {"server": "0", "client": "1"},
    }

    (run,) = previews.preview(draft(hosts, operator, roles, changes)).runs

    server, standby = run.parts
    assert (run.loader, server.host, standby.host) == (hosts["client"].pk, hosts["server"].pk, hosts["one"].pk)
    assert run.spec["target"]["kind"] == "remote"
    assert (run.spec["target"]["address"], run.spec["target"]["port"]) == ("127.0.0.2", 6000)
    assert run.spec["settings"] == {"cpu_affinity": {"client": "1"}}
    assert server.spec["settings"] == {"cpu_affinity": {"server": "0"}, **changes_of(changes)}
    assert server.spec["serve"]["clients"] == ["127.0.0.1"]
    assert server.spec["serve"]["standbys"] == [{"name": "standby1", "address": "127.0.0.1"}]
    assert (server.spec["steps"], standby.spec["steps"], standby.spec["dataset"]) == ([], [], None)
    assert standby.spec["settings"] == {"postgresql": {"work_mem": "8MB"}}


PROOF = {"setting": "cpu_affinity", "phase": "before", "subject": "server: postmaster", "wanted": "0", "found": "0"}


def proven_part(hosts: Hosts, by: User) -> RunPart:
    """The server of a run with a standby, which has proved its cpus and left a file."""
    campaign = draft(hosts, by, {"client": "client", "standbys": ["one"]}, {"settings.cpu_affinity.server": "0"})
    services.add_runs(campaign, previews.preview(campaign).runs)
    server = campaign.runs.get().parts.get(role="server")
    server.facts = server.host.facts_history.get()
    server.save()
    server.events.create(seq=1, at=timezone.now(), kind="proof", data={**PROOF, "ok": True, "evidence": {}})
    server.events.create(seq=2, at=timezone.now(), kind="log", data={"level": "info", "message": "not exported"})
    server.artefacts.create(path="out/postgresql.log", size=3, sha256="0" * 64, content=b"LOG")
    return server


def test_an_export_has_the_record_of_each_host(hosts: Hosts, operator: User) -> None:
    server = proven_part(hosts, operator)

    (run,) = json.loads("".join(exports.document(server.run.campaign)))["runs"]

    assert [(part["name"], part["host"]) for part in run["parts"]] == [("server", "server"), ("standby1", "one")]
    exported = run["parts"][0]
    assert (exported["id"], exported["spec"], exported["digest"]) == (str(server.pk), server.spec, server.digest)
    assert exported["proofs"] == [{**PROOF, "ok": True, "evidence": {}}] and exported["writes"] == []
    assert exported["artefacts"] == [{"path": "out/postgresql.log", "size": 3, "sha256": "0" * 64}]
    assert (run["proofs"], run["artefacts"]) == ([], [])


def test_the_number_of_queries_of_an_export_does_not_grow_with_roles(
    hosts: Hosts, operator: User, django_assert_num_queries: Any
) -> None:
    campaign = proven_part(hosts, operator).run.campaign

    with django_assert_num_queries(7):
        assert list(exports.document(campaign))


def test_the_page_of_a_run_shows_the_record_of_each_host(hosts: Hosts, operator: User, client: Client) -> None:
    server = proven_part(hosts, operator)
    run, artefact, facts = server.run, server.artefacts.get(), server.facts
    client.force_login(operator)

    shown = client.get(f"/runs/{run.pk}/?tab=hosts").content.decode()
    proven = client.get(f"/runs/{server.pk}/?tab=settings").content.decode()
    file = client.get(f"/runs/{run.pk}/parts/{artefact.pk}/")

    assert [name in shown for name in ("standby1", "out/postgresql.log", "postmaster")] == [True] * 3
    assert facts and f"{facts.number}, <code>{facts.digest[:16]}</code>" in shown
    assert "server had 1 socket, 4 cores, 4 threads, 1 node, and Linux 6.1.0." in shown
    assert "cpu_affinity on server" in proven
    assert file.content == b"LOG"
    assert client.get(f"/runs/{run.pk}/").status_code == 200


def test_a_clone_takes_the_hosts_of_its_campaign_over(hosts: Hosts, operator: User, client: Client) -> None:
    roles = {"client": "client", "standbys": ["one"], "port": 6000, "addresses": {"server": "127.0.0.2"}}
    source = draft(hosts, operator, roles, {})

    shown = CampaignForm.filled(source)

    assert (shown["client"], shown["standbys"]) == (hosts["client"].pk, [hosts["one"].pk])
    assert (shown["server_address"], shown["server_port"]) == ("127.0.0.2", 6000)


def changes_of(changes: dict[str, Any]) -> dict[str, Any]:
    return {"postgresql": changes["settings.postgresql"]}


def test_without_a_client_the_load_runs_beside_the_primary(hosts: Hosts, operator: User) -> None:
    (run,) = previews.preview(draft(hosts, operator, {"standbys": ["one", "two"]}, {}, builtin="tpcb-like")).runs

    assert run.loader is None
    assert [part.role for part in run.parts] == ["standby", "standby"]
    assert run.spec["serve"]["writes"]
    assert [step["kind"] for step in run.spec["steps"]] == ["pgbench"]


def test_a_tracer_cannot_attach_to_a_server_on_another_host(hosts: Hosts, operator: User) -> None:
    traced = {**CAPABLE, "tools": {**CAPABLE["tools"], "strace": {"path": "/usr/bin/strace", "version": ""}}}
    hosts["client"].facts_history.update(data=traced)

    with pytest.raises(PlanError, match="strace") as refusal:
        draft(hosts, operator, {"client": "client"}, {}, tracer={"tool": "strace", "syscalls": ["read"]})

    assert refusal.value.subject == "steps.measure.tracer"


def test_a_client_without_the_servers_version_is_refused(hosts: Hosts, operator: User) -> None:
    older = {**CAPABLE["postgresql"][0], "major": 15, "version": "15.4"}
    hosts["client"].facts_history.update(data={**CAPABLE, "postgresql": [older]})

    with pytest.raises(PlanError, match="client has no PostgreSQL 18") as refusal:
        draft(hosts, operator, {"client": "client"}, {})

    assert refusal.value.subject == "roles.client"


@pytest.mark.parametrize(
    ("roles", "named", "message"),
    [
        ({"clients": 1}, "roles.clients", "is not a role"),
        ({"port": 5433}, "roles", "the roles need a client or standbys"),
        ({"client": 0}, "roles.client", "host 0 does not exist"),
        ({"client": "server"}, "roles", "the same host"),
        ({"standbys": ["one", "one"]}, "roles", "the same host"),
        ({"client": "client", "port": 80}, "roles.port", "80 is not a port"),
        ({"client": "client", "addresses": {"server": "169.254.169.254"}}, "address", "is not in an allowed network"),
    ],
)
def test_invalid_roles_are_refused(
    hosts: Hosts, operator: User, roles: dict[str, Any], named: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as refusal:
        draft(hosts, operator, roles, {})

    assert refusal.value.subject == named


def test_another_name_of_the_same_machine_is_refused(hosts: Hosts, operator: User) -> None:
    Host.objects.filter(pk=hosts["one"].pk).update(machine_id=hosts["server"].machine_id)

    with pytest.raises(PlanError, match="one is the same machine as server"):
        draft(hosts, operator, {"client": "one"}, {})


def test_wal_that_standbys_cannot_follow_is_refused(hosts: Hosts, operator: User) -> None:
    with pytest.raises(PlanError, match="minimal") as refusal:
        draft(hosts, operator, {"standbys": ["one"]}, {"settings.postgresql.wal_level": "minimal"})

    assert refusal.value.subject == "settings.postgresql.wal_level"


def test_synchronous_standby_names_without_a_standby_are_refused(hosts: Hosts, operator: User) -> None:
    with pytest.raises(PlanError, match="forever") as refusal:
        draft(hosts, operator, {}, {"settings.postgresql.synchronous_standby_names": "*"})

    assert refusal.value.subject == "settings.postgresql.synchronous_standby_names"


def test_the_recipe_compares_all_levels_of_synchronous_commit(hosts: Hosts, operator: User) -> None:
    roles = meant(hosts, {"standbys": ["one", "two"]})

    campaign = services.create_from_recipe(
        by=operator, host=hosts["server"], recipe="synchronous-replication", roles=roles
    )

    runs = previews.preview(campaign).runs
    commits = {run.spec["settings"]["postgresql"]["synchronous_commit"] for run in runs}
    assert commits == {"off", "local", "remote_write", "on", "remote_apply"}
    assert all(len(run.parts) == 2 for run in runs)

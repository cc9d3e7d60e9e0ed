"""Targets that a campaign may measure on a host, and messages of refusals."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.campaigns.design import targets
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution import dispatch
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.hosts.usage import cluster_consents
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign, make_host, make_user
from tests.servers import machine

CLUSTER = machine.CLUSTER
MAIN = {"data_dir": CLUSTER["data_dir"]}
OLDER = {**machine.facts()["postgresql"][0], "bin_dir": "/usr/lib/postgresql/16/bin", "version": "16.9", "major": 16}


@pytest.fixture
def host(db: None) -> Host:
    return measurable(postgresql=[*machine.facts()["postgresql"], OLDER])


def measurable(**changes: Any) -> Host:
    """A host whose cluster an admin has allowed to measure."""
    host = make_host(facts=machine.facts(**changes))
    cluster_consents.allow(host, CLUSTER["data_dir"], "measure", by=make_user(Role.ADMIN))
    return host


def planned(host: Host, **settings: Any) -> list[Any]:
    """The runs of a campaign on the existing cluster whose only level has these settings."""
    level = {"label": "one", "set": {f"settings.{path}": value for path, value in settings.items()}}
    factors = [{"name": "what", "levels": [level]}]
    return previews.preview(make_campaign(host=host, factors=factors, repetitions=1, target=MAIN)).runs


def test_the_default_target_is_a_private_cluster_of_the_newest_version(host: Host) -> None:
    assert targets.target(host, host.facts, {})["bin_dir"] == "/usr/lib/postgresql/17/bin"


def test_a_private_cluster_may_have_any_installed_version(host: Host) -> None:
    planned = targets.target(host, host.facts, {"bin_dir": OLDER["bin_dir"]})

    assert (planned["kind"], planned["bin_dir"], planned["data_dir"]) == ("private", OLDER["bin_dir"], host.data_dir)


def test_an_existing_cluster_is_planned_with_its_current_consents(host: Host, admin: User) -> None:
    cluster_consents.allow(host, CLUSTER["data_dir"], "restart", by=admin)

    assert targets.target(host, host.facts, MAIN) == {
        "kind": "existing",
        "bin_dir": "/usr/lib/postgresql/17/bin",
        "data_dir": "/var/lib/postgresql/17/main",
        "config_file": "/etc/postgresql/17/main/postgresql.conf",
        "port": 5432,
        "unit": "postgresql@17-main.service",
        "os_user": "postgres",
        "include": "/etc/postgresql/17/main/conf.d/zz_proving_ground.conf",
        "consent": {"measure": True, "restart": True, "disturb_clients": False},
    }


@pytest.mark.parametrize(
    ("changes", "target", "message"),
    [
        ({}, {"bin_dir": "/opt/pg"}, "/opt/pg of"),
        ({}, {"data_dir": "/data"}, "no cluster in /data"),
        ({}, {"unit": "postgresql.service"}, "does not name a PostgreSQL"),
        ({"clusters": [{**CLUSTER, "major": 9}]}, MAIN, "is not PostgreSQL 10 or later"),
        ({"level": "user"}, MAIN, "belongs to postgres, and the agent runs as"),
    ],
)
def test_a_target_that_the_host_lacks_is_refused(host: Host, changes: Any, target: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        targets.target(host, host.facts | changes, target)


def test_a_cluster_without_the_permission_to_measure_is_refused(host: Host, admin: User) -> None:
    cluster_consents.withdraw(host, CLUSTER["data_dir"], "measure", by=admin)

    with pytest.raises(
        PlanError, match=f"no admin has allowed campaigns to measure {CLUSTER['data_dir']} of {host}"
    ) as refused:
        planned(host, **{"postgresql.work_mem": "8MB"})

    assert refused.value.hint == f"an admin can allow it on the page of {host}; or use a private cluster"


def test_a_queued_run_fails_once_the_consent_to_measure_is_withdrawn(host: Host, admin: User) -> None:
    cluster_consents.allow(host, CLUSTER["data_dir"], "restart", by=admin)
    campaign = make_campaign(Campaign.State.RUNNING, host=host, repetitions=1, target=MAIN)
    run = campaign.runs.order_by("position")[0]
    cluster_consents.withdraw(host, CLUSTER["data_dir"], "measure", by=admin)

    dispatch.tick(run)

    assert "no admin has allowed campaigns to measure" in Run.objects.get(pk=run.pk).error["message"]


def test_a_reload_needs_no_consent_to_restart(host: Host) -> None:
    (run,) = planned(host, **{"postgresql.work_mem": "8MB"})

    assert run.spec["target"]["consent"] == {"measure": True, "restart": False, "disturb_clients": False}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"postgresql.shared_buffers": "1GB"}, "shared_buffers is set"),
        ({"cpu_affinity.server": "0"}, "cpu_affinity is set"),
        ({"huge_pages.use": "off"}, "huge_pages is set"),
    ],
)
def test_a_restart_needs_consent(host: Host, admin: User, settings: Any, reason: str) -> None:
    with pytest.raises(
        PlanError, match=f"a restart of {CLUSTER['data_dir']} is needed because {reason}, but no admin has allowed it"
    ):
        planned(host, **settings)
    cluster_consents.allow(host, CLUSTER["data_dir"], "restart", by=admin)

    assert planned(host, **settings)


def test_a_stopped_cluster_is_started_with_consent_only(admin: User) -> None:
    host = measurable(clusters=[{**CLUSTER, "running": False}])

    with pytest.raises(PlanError, match="because it is stopped"):
        planned(host, **{"postgresql.work_mem": "8MB"})


def test_a_cluster_without_the_include_line_is_refused_with_the_line_to_add(db: None) -> None:
    host = measurable(clusters=[{**CLUSTER, "include": ""}])

    with pytest.raises(PlanError, match="does not include a file that runs may write") as refused:
        planned(host, **{"postgresql.work_mem": "8MB"})

    assert "include_if_exists 'proving_ground.conf'" in refused.value.hint


def test_initdb_is_refused_for_an_existing_cluster(host: Host) -> None:
    with pytest.raises(PlanError) as refused:
        planned(host, **{"initdb.data_checksums": False})

    assert refused.value.subject == "settings.initdb" and "a private cluster" in refused.value.hint


def test_a_run_whose_consent_was_revoked_fails_before_the_host_is_contacted(host: Host, admin: User) -> None:
    cluster_consents.allow(host, CLUSTER["data_dir"], "restart", by=admin)
    campaign = make_campaign(Campaign.State.RUNNING, host=host, repetitions=1, target=MAIN)
    run = campaign.runs.order_by("position")[0]
    cluster_consents.withdraw(host, CLUSTER["data_dir"], "restart", by=admin)

    dispatch.tick(run)

    ended = Run.objects.get(pk=run.pk)
    assert (ended.state, ended.outcome) == (Run.State.ENDED, Run.Outcome.FAILED)
    assert "the permission to restart" in ended.error["message"]


def test_the_api_accepts_and_returns_the_target(host: Host, operator: User) -> None:
    body = {"recipe": "cpu-scaling", "host": host.pk, "target": {"bin_dir": OLDER["bin_dir"]}}

    made = browser(operator).post("/api/v1/campaigns/", body)

    assert made.status_code == 201, made.content
    assert made.json()["target"] == {"bin_dir": OLDER["bin_dir"]}
    refused = browser(operator).post("/api/v1/campaigns/", body | {"target": MAIN})
    assert (refused.status_code, refused.json()["field"]) == (400, "target")


def test_the_form_offers_the_clusters_and_versions_of_each_host(client: Client, host: Host, operator: User) -> None:
    client.force_login(operator)

    page = client.get(reverse("campaign_new") + f"?recipe=cpu-scaling&host={host.pk}").content.decode()

    assert f'<optgroup label="{host.name}">' in page
    assert 'value="data_dir /var/lib/postgresql/17/main">existing: 17/main (17.6, port 5432)' in page
    assert 'value="bin_dir /usr/lib/postgresql/16/bin">private, of PostgreSQL 16.9' in page
    assert targets.read_choice("data_dir /var/lib/with blanks") == {"data_dir": "/var/lib/with blanks"}

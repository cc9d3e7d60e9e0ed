"""Existing clusters: each consent is one action of an admin, with an audit entry."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.hosts.models import Host
from apps.hosts.usage import cluster_consents
from common.errors import PlanError
from tests.rows import populate
from tests.rows.factories import browser, make_host, make_user
from tests.servers import machine

MAIN = machine.CLUSTER["data_dir"]
RESTART = {"data_dir": MAIN, "may": "restart"}


@pytest.fixture
def host(db: None) -> Host:
    return populate.host()


def test_nothing_is_allowed_at_first(host: Host) -> None:
    assert cluster_consents.of(host, MAIN) == {"measure": False, "restart": False, "disturb_clients": False}


def test_each_consent_is_an_act_of_its_own(host: Host, admin: User) -> None:
    cluster_consents.allow(host, MAIN, "restart", by=admin)
    cluster_consents.allow(host, MAIN, "restart", by=admin)

    assert cluster_consents.of(host, MAIN) == {"measure": False, "restart": True, "disturb_clients": False}
    cluster_consents.allow(host, MAIN, "disturb_clients", by=admin)
    cluster_consents.withdraw(host, MAIN, "restart", by=admin)
    assert cluster_consents.of(host, MAIN) == {"measure": False, "restart": False, "disturb_clients": True}
    acts = AuditEntry.objects.filter(action__startswith="cluster.").order_by("pk")
    assert [(act.action, (act.after or act.before)["data_dir"]) for act in acts] == [
        ("cluster.allow_restart", MAIN),
        ("cluster.allow_disturb_clients", MAIN),
        ("cluster.forbid_restart", MAIN),
    ]


@pytest.mark.parametrize(
    ("data_dir", "may", "field"),
    [("/etc", "restart", "data_dir"), (MAIN, "drop", "may")],
)
def test_only_known_consents_of_known_clusters_are_accepted(
    host: Host, admin: User, data_dir: str, may: str, field: str
) -> None:
    with pytest.raises(PlanError) as refused:
        cluster_consents.allow(host, data_dir, may, by=admin)

    assert refused.value.subject == field


def test_a_permission_that_does_not_exist_cannot_be_withdrawn(host: Host, admin: User) -> None:
    with pytest.raises(PlanError, match="no admin has allowed to restart"):
        cluster_consents.withdraw(host, MAIN, "restart", by=admin)


def test_the_permissions_in_a_spec_are_compared_with_the_present_ones(host: Host, admin: User) -> None:
    target = {"kind": "existing", "data_dir": MAIN, "consent": {"restart": True, "disturb_clients": False}}
    with pytest.raises(PlanError, match=f"no admin has allowed campaigns to measure {MAIN} of {host}"):
        cluster_consents.check(host, target)
    cluster_consents.allow(host, MAIN, "measure", by=admin)
    with pytest.raises(PlanError, match="the permission to restart"):
        cluster_consents.check(host, target)
    cluster_consents.allow(host, MAIN, "restart", by=admin)

    cluster_consents.check(host, target)
    cluster_consents.check(host, None)


def test_the_api_reads_and_changes_consents(host: Host, admin: User) -> None:
    at = f"/api/v1/hosts/{host.pk}"

    (row,) = browser(admin).post(f"{at}/allow-cluster/", RESTART).json()

    assert row["consent"] == {"measure": None, "restart": admin.username, "disturb_clients": None}
    assert browser(admin).get(f"{at}/clusters/").json() == [row]
    assert browser(admin).post(f"{at}/forbid-cluster/", RESTART).json()[0]["consent"]["restart"] is None
    assert browser(admin).post(f"{at}/allow-cluster/", {**RESTART, "may": "all"}).status_code == 400


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.TUNER])
def test_only_admins_give_consent(host: Host, role: Role) -> None:
    user = make_user(role)

    for verb in ("allow-cluster", "forbid-cluster"):
        assert browser(user).post(f"/api/v1/hosts/{host.pk}/{verb}/", RESTART).status_code == 403
        posted: dict[str, Any] = {"data": RESTART, "follow": True}
        logged_in = Client()
        logged_in.force_login(user)
        logged_in.post(reverse("host_action", args=[host.name, verb]), **posted)
    assert not host.consents.exists()


def test_the_page_has_a_button_for_each(client: Client, host: Host, admin: User) -> None:
    client.force_login(admin)

    page = client.post(reverse("host_action", args=[host.name, "allow-cluster"]), RESTART, follow=True).content.decode()

    assert f"yes, by {admin}" in page and page.count('value="disturb_clients"') == 1
    assert host.consents.get().given_by == admin
    client.post(reverse("host_action", args=[host.name, "forbid-cluster"]), RESTART)
    assert not host.consents.exists()


def test_the_page_says_which_line_to_add(client: Client, admin: User) -> None:
    host = make_host(facts=machine.facts(clusters=[{**machine.CLUSTER, "include": ""}]))
    client.force_login(admin)

    page = client.get(reverse("host_detail", args=[host.name])).content.decode()

    assert "include_if_exists 'proving_ground.conf'" in page

"""Adding hosts and keys in the browser, and the buttons of a host's page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.hosts import services
from apps.hosts.models import Host, HostKey, Identity
from tests.rows import populate
from tests.rows.factories import make_host
from tests.servers import machine


@pytest.fixture
def admin_client(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


@pytest.fixture
def form(db: None) -> dict[str, str]:
    """What an admin types for a host that is accepted."""
    populate.host("other")
    identity = Identity.objects.get()
    return {
        "name": "bench-09",
        "address": "127.0.0.1",
        "port": "2222",
        "user": "proving",
        "identity": str(identity.pk),
        "python": "/usr/bin/python3",
        "spool_dir": "/var/lib/proving-ground/spool",
        "data_dir": "/var/lib/proving-ground/clusters",
        "pg_bin_dirs": "/opt/pg18/bin\n/opt/pg17/bin",
    }


def test_a_host_is_added_and_its_page_shows_the_next_step(admin_client: Client, form: dict[str, str]) -> None:
    answer = admin_client.post(reverse("host_add"), form, follow=True)

    added = Host.objects.get(name="bench-09")
    assert answer.redirect_chain == [(reverse("host_detail", args=["bench-09"]), 302)]
    assert b"Fetch host key" in answer.content
    assert (added.port, added.pg_bin_dirs, added.sudo) == (2222, ["/opt/pg18/bin", "/opt/pg17/bin"], False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Bench 9"),
        ("address", "169.254.169.254"),
        ("address", "bench..lan"),
        ("python", "python3 -c evil"),
        ("user", "root;"),
        ("port", "0"),
    ],
)
def test_an_error_is_shown_at_its_field_and_no_input_is_lost(
    admin_client: Client, form: dict[str, str], field: str, value: str
) -> None:
    answer = admin_client.post(reverse("host_add"), form | {field: value})

    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert form["data_dir"] in answer.content.decode()
    assert not Host.objects.filter(address=form["address"]).exists()


def test_an_invalid_key_is_refused_and_never_shown_again(admin_client: Client) -> None:
    answer = admin_client.post(reverse("identity_add"), {"name": "mine", "private_key": "no key"})

    assert answer.status_code == 422
    assert "private_key" in answer.context["form"].errors


def test_a_key_just_made_is_shown_and_chosen_where_the_host_is_added(
    admin_client: Client, form: dict[str, str]
) -> None:
    answer = admin_client.post(reverse("identity_add"), {"name": "zeta", "private_key": ""}, follow=True)

    made = Identity.objects.get(name="zeta")
    assert answer.redirect_chain == [(f"{reverse('host_add')}?identity={made.pk}", 302)]
    assert made.public_key in answer.content.decode()
    assert answer.context["form"]["identity"].value() == made.pk


def test_an_archive_host_cannot_be_a_jump_host(admin_client: Client, admin: User, form: dict[str, str]) -> None:
    archive = services.archive_host("imported", by=admin)

    page = admin_client.get(reverse("host_add")).content.decode()
    refused = admin_client.post(reverse("host_add"), form | {"jump": str(archive.pk)})
    by_api = admin_client.post(
        "/api/v1/hosts/", form | {"jump": archive.pk, "pg_bin_dirs": []}, content_type="application/json"
    )

    assert ">imported<" not in page and ">other<" in page
    assert list(refused.context["form"].errors) == ["jump"]
    assert (by_api.status_code, by_api.json()["field"]) == (400, "jump")


@pytest.mark.parametrize("identity", ["", "0", "zeta", "9" * 30])
def test_a_link_to_an_unknown_key_offers_the_first_one(
    admin_client: Client, form: dict[str, str], identity: str
) -> None:
    answer = admin_client.get(reverse("host_add"), {"identity": identity})

    assert answer.context["form"]["identity"].value() == Identity.objects.get().pk


def test_an_offered_key_is_approved_from_the_page_that_shows_its_fingerprint(admin_client: Client) -> None:
    host = populate.host("fresh", checked=False)
    offered = host.host_keys.get()
    page = admin_client.get(reverse("host_detail", args=["fresh"])).content.decode()

    admin_client.post(reverse("host_action", args=["fresh", "approve"]), {"fingerprint": offered.fingerprint})

    offered.refresh_from_db()
    approved = admin_client.get(reverse("host_detail", args=["fresh"])).content.decode()
    assert offered.fingerprint in page and "ssh-keygen -lf" in page
    assert offered.state == HostKey.State.PINNED
    assert "its host key is not approved yet" in page and "it has not been checked yet" in approved


def test_an_operator_checks_but_does_not_approve(client: Client, db: None) -> None:
    host = populate.host("fresh", checked=False)
    client.force_login(populate.user(Role.OPERATOR))

    answer = client.post(reverse("host_action", args=["fresh", "approve"]), {"fingerprint": "x"})

    assert answer.status_code == 403
    assert host.pinned_key is None


def test_an_unreachable_host_is_named_on_its_page(admin_client: Client) -> None:
    host = populate.host("fresh", checked=False)
    Host.objects.filter(pk=host.pk).update(address="127.0.0.1", port=1)

    answer = admin_client.post(reverse("host_action", args=["fresh", "fetch-key"]), follow=True)

    assert answer.status_code == 200
    assert b"message error" in answer.content


def test_a_quarantined_host_is_released_by_an_admin(admin_client: Client) -> None:
    populate.host("broken", state=Host.State.QUARANTINED)

    answer = admin_client.post(reverse("host_action", args=["broken", "release"]), follow=True)

    assert "broken is being released" in answer.content.decode()
    assert AuditEntry.objects.filter(action="host.release", target="broken").exists()


def test_facts_of_the_agent_are_escaped(admin_client: Client) -> None:
    host = populate.host()
    newest = host.facts_history.order_by("-number")[0]
    newest.data["os"]["pretty"] = "<script>alert(1)</script>"
    newest.save()

    assert b"<script>alert" not in admin_client.get(reverse("host_detail", args=[host.name])).content


@pytest.mark.parametrize(
    ("limits", "shown"), [({}, "none by control groups"), ({"cpu_quota": 1.5}, "time of 1.5 cpus")]
)
def test_limits_of_the_agent_are_shown_or_said_to_be_none(
    admin_client: Client, limits: dict[str, float], shown: str
) -> None:
    host = populate.host()
    newest = host.facts_history.order_by("-number")[0]
    newest.data["limits"] = limits
    newest.save()

    page = admin_client.get(reverse("host_detail", args=[host.name])).content.decode()

    assert shown in page.split("<dt>Limits of the agent</dt>")[1].partition("</dd>")[0]


def test_a_host_page_shows_the_hardware_in_sentences(admin_client: Client) -> None:
    host = populate.host()

    page = admin_client.get(reverse("host_detail", args=[host.name])).content.decode()

    for shown in ("PowerEdge R640", "microcode 0x2007006", "L3 24.75 MiB", "SAMSUNG MZQL23T8HCLS-00A07", "/srv/pg"):
        assert shown in page
    for shown in ("25000 Mbit/s", "17/main", "postgresql@17-main.service", "1.2 GHz to 3.7 GHz", "154000 processes"):
        assert shown in page
    assert "<strong>kernel.release</strong>" in page and "6.12.41-amd64" in page


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "version 2; runs can limit cpu, cpuset, io, memory"),
        (
            {"version": "hybrid", "controllers": [], "legacy": ["cpu", "memory"]},
            "version 2, with controllers left in version 1 (cpu, memory); runs can limit nothing",
        ),
        (
            {"version": "2", "controllers": [], "problem": "/sys/fs/cgroup is mounted read-only"},
            "version 2; runs can limit nothing: /sys/fs/cgroup is mounted read-only",
        ),
    ],
)
def test_a_host_page_lists_the_limits_that_control_groups_support(
    admin_client: Client, changes: dict[str, Any], sentence: str
) -> None:
    host = make_host(facts=machine.facts(cgroup=machine.facts()["cgroup"] | changes))

    page = admin_client.get(reverse("host_detail", args=[host.name])).content.decode()

    assert f"<dt>Control groups</dt><dd>{sentence}</dd>" in page


def test_a_host_whose_facts_an_older_agent_read_has_its_page(admin_client: Client) -> None:
    host = make_host()

    answer = admin_client.get(reverse("host_detail", args=[host.name]))

    assert answer.status_code == 200


def test_a_host_with_few_facts_has_its_page(admin_client: Client) -> None:
    remote = {"mounted_on": "/mnt", "device": "filer:/pg", "type": "nfs4", "options": ["rw"]}
    disk = {
        "name": "vda",
        "kb": 1,
        "scheduler": "",
        "schedulers": [],
        "holders": [],
        "mounted_on": [],
        "partitions": [],
    }
    devices = {"block_devices": [disk], "file_systems": [remote], "network": [{"name": "eth0", "state": "up"}]}
    bare = {"firmware": {}, "limits": {}, "clusters": [], "postgresql": [], "unread": {"os": "ValueError: x"}}
    host = make_host(facts=machine.facts(**devices, **bare))

    page = admin_client.get(reverse("host_detail", args=[host.name])).content.decode()

    assert "Os could not be read: ValueError: x" in page and "filer:/pg" in page

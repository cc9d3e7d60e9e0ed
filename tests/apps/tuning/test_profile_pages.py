"""Writing, revising and comparing profiles in the browser."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.hosts.models import Host
from apps.tuning.models import Profile
from tests.rows import populate
from tests.servers import machine


@pytest.fixture
def tuner(client: Client, db: None) -> User:
    user = populate.user(Role.TUNER)
    client.force_login(user)
    return user


def test_fields_of_the_catalogue_become_settings(client: Client, tuner: User) -> None:
    typed = {
        "name": "oltp",
        "settings.cpu_affinity.server": "0-3",
        "settings.postgresql": "# memory\nshared_buffers = '8GB'\nwork_mem = 64MB # per sort\n",
        "settings.sysctl.vm.swappiness": "10",
        "settings.sysctl.net.ipv4.tcp_rmem": "4096 131072 6291456",
        "settings.block_device.data.scheduler": "none",
        "settings.block_device": "sda.read_ahead_kb = 4096\nnvme0n1.scheduler = none\n",
        "settings.transparent_huge_pages.khugepaged.defrag": "off",
    }

    client.post(reverse("profile_add"), typed)

    expected = {
        "cpu_affinity": {"server": "0-3"},
        "transparent_huge_pages": {"khugepaged": {"defrag": False}},
        "sysctl": {"vm": {"swappiness": 10}, "net": {"ipv4": {"tcp_rmem": "4096 131072 6291456"}}},
        "block_device": {
            "data": {"scheduler": "none"},
            "sda": {"read_ahead_kb": 4096},
            "nvme0n1": {"scheduler": "none"},
        },
        "postgresql": {"shared_buffers": "8GB", "work_mem": "64MB"},
    }
    assert Profile.objects.get().latest.settings == expected


@pytest.mark.parametrize(
    ("field", "typed", "message"),
    [
        ("settings.postgresql", "shared_bufers = 1GB", "shared_bufers: is not a PostgreSQL parameter. Did you mean"),
        ("settings.postgresql", "shared_buffers 1GB", "has no value"),
        ("settings.postgresql", "work_mem = 1MB\nwork_mem = 2MB", "appears twice"),
        ("settings.cpu_affinity.server", "zero", "mask (0x6)"),
        ("settings.block_device", "vda = none", "not NAME.FIELD"),
        ("settings.sysctl.vm.swappiness", "1000", "200"),
        ("name", "My Profile", "use 1 to 63"),
    ],
)
def test_an_error_of_the_catalogue_is_shown_at_its_field(
    client: Client, tuner: User, field: str, typed: str, message: str
) -> None:
    answer = client.post(reverse("profile_add"), {"name": "oltp", "note": "kept", field: typed})

    assert answer.status_code == 422
    assert message in answer.context["form"].errors[field][0]
    assert b'value="kept"' in answer.content
    assert not Profile.objects.exists()


def test_a_setting_is_open_if_it_has_a_value_or_an_error(client: Client, tuner: User) -> None:
    empty = client.get(reverse("profile_add")).context["form"].groups
    profile = populate.profile(tuner)
    revised = client.get(reverse("profile_revise", args=[profile.name])).context["form"].groups
    wrong = client.post(reverse("profile_add"), {"name": "x", "settings.cpu_affinity.server": "zero"})

    assert not any(group.filled_in or group.wrong for group in empty)
    assert {group.setting.name for group in revised if group.filled_in} == {"cpu_affinity", "postgresql"}
    assert [group.setting.name for group in wrong.context["form"].groups if group.wrong] == ["cpu_affinity"]
    assert wrong.content.decode().count('<details class="card setting" open>') == 1


def test_revising_begins_as_the_latest_revision_says(client: Client, tuner: User) -> None:
    profile = populate.profile(tuner)
    url = reverse("profile_revise", args=[profile.name])
    form = client.get(url).context["form"]

    client.post(url, {**form.initial, "settings.postgresql": "shared_buffers = 16GB", "note": "double it"})

    latest = profile.latest
    assert (latest.number, latest.note) == (3, "double it")
    assert latest.settings == {"postgresql": {"shared_buffers": "16GB"}, "cpu_affinity": {"server": "0-3"}}


def test_any_two_revisions_are_compared(client: Client, tuner: User) -> None:
    profile = populate.profile(tuner)

    answer = client.get(reverse("profile_detail", args=[profile.name]), {"r": "1", "against": "2"})

    changed = {difference.path: (difference.before, difference.after) for difference in answer.context["differences"]}
    assert changed["postgresql.shared_buffers"] == ("8GB", "4GB")
    assert changed["cpu_affinity.server"] == ("0-3", None)


def test_a_dry_run_shows_the_commands_or_why_there_are_none(client: Client, tuner: User) -> None:
    profile, host = populate.profile(tuner), populate.host()
    small = populate.host("small")
    small.facts_history.update(data=machine.facts(cpus={"online": "0-1", "allowed": "0-1", "topology": []}))
    url = reverse("profile_detail", args=[profile.name])

    assert "taskset -c 0-3" in client.get(url, {"host": host.pk}).content.decode()
    refused = client.get(url, {"host": small.pk}).content.decode()
    assert "small does not support" in refused
    assert "CPUs that are online: 0-1" in refused


def test_an_unreachable_host_is_named_and_its_facts_are_used(client: Client, tuner: User) -> None:
    profile, host = populate.profile(tuner), populate.host()
    Host.objects.filter(pk=host.pk).update(address="127.0.0.1", port=1)

    answer = client.post(reverse("dry_run"), {"profile": profile.name, "host": host.pk}, headers={"HX-Request": "true"})

    assert answer.status_code == 200
    page = answer.content.decode()
    assert "did not answer" in page and "taskset -c 0-3" in page and "<html" not in page


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"profile": "none"}, "Profile none does not exist."),
        ({"host": "99"}, "This host does not exist, or was never checked."),
        ({"r": "7"}, "oltp has no revision 7."),
    ],
)
def test_a_dry_run_names_a_profile_or_host_that_does_not_exist(
    client: Client, tuner: User, wrong: dict[str, str], message: str
) -> None:
    profile, host = populate.profile(tuner), populate.host()

    answer = client.get(reverse("dry_run"), {"profile": profile.name, "host": host.pk} | wrong)

    page = answer.content.decode()
    assert answer.status_code == 422
    assert message in page and "Not saved" not in page


@pytest.mark.parametrize("hosts", [1, 2])
def test_the_only_host_is_chosen_already(client: Client, tuner: User, hosts: int) -> None:
    made = [populate.host(f"bench-{place}") for place in range(hosts)]

    form = client.get(reverse("dry_run")).context["dry"]

    assert form["host"].value() == (made[0].pk if hosts == 1 else None)


def test_an_export_is_a_download_named_after_profile_revision_and_host(client: Client, tuner: User) -> None:
    profile, host = populate.profile(tuner), populate.host()

    answer = client.get(reverse("profile_export", args=[profile.name, "postgresql"]), {"host": host.pk, "r": 1})

    assert answer["Content-Disposition"] == 'attachment; filename="oltp-r1-bench-01-postgresql.conf"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "shared_buffers = '4GB'" in answer.content.decode()

"""Hosts and identities over the API."""

from __future__ import annotations

from apps.accounts.models import AuditEntry, User
from apps.hosts.models import Facts, Host, HostKey, Identity
from tests.rows.factories import FACTS, browser, make_host, make_identity
from tests.servers import machine

HOSTS = "/api/v1/hosts/"


def test_an_identity_shows_its_public_half_only(admin: User) -> None:
    answer = browser(admin).post("/api/v1/identities/", {"name": "lab"})

    assert answer.status_code == 201
    assert answer.json()["public_key"].startswith("ssh-ed25519 ")
    identity = Identity.objects.get()
    for shown in (answer, browser(admin).get(f"/api/v1/identities/{identity.pk}/")):
        references = {"private_key_from", "certificate_from", "certificate_ends_at", "problem"}
        assert set(shown.json()) == {"id", "name", "public_key", "created_at"} | references
        assert "PRIVATE" not in shown.content.decode()


def test_an_invalid_private_key_is_refused(admin: User) -> None:
    answer = browser(admin).post("/api/v1/identities/", {"name": "lab", "private_key": "secret"})

    assert (answer.status_code, answer.json()["field"]) == (400, "private_key")
    assert "ssh-keygen" in answer.json()["hint"]


def test_a_host_is_added_new_and_without_a_key(admin: User) -> None:
    body = {"name": "db1", "address": "127.0.0.1", "user": "dba", "identity": make_identity().pk}

    answer = browser(admin).post(HOSTS, body)

    assert answer.status_code == 201, answer.content
    host = answer.json()
    assert (host["state"], host["port"], host["fingerprint"], host["facts"]) == ("new", 22, None, {})


def test_an_address_outside_the_allow_list_is_refused(admin: User) -> None:
    body = {"name": "db1", "address": "169.254.169.254", "user": "dba", "identity": make_identity().pk}

    answer = browser(admin).post(HOSTS, body)

    assert (answer.status_code, answer.json()["field"]) == (400, "address")
    assert not Host.objects.exists()


def test_facts_of_the_agent_cannot_be_written(admin: User) -> None:
    host = make_host()

    answer = browser(admin).patch(f"{HOSTS}{host.pk}/", {"state": "quarantined", "machine_id": "x", "user": "postgres"})

    host.refresh_from_db()
    assert answer.json()["user"] == host.user == "postgres"
    assert (host.state, host.machine_id != "x") == (Host.State.READY, True)


def test_another_address_needs_a_new_approval_of_its_key(admin: User) -> None:
    host = make_host()

    answer = browser(admin).patch(f"{HOSTS}{host.pk}/", {"port": 2222})

    assert (answer.json()["state"], answer.json()["fingerprint"]) == ("new", None)


def test_an_offered_key_is_approved_by_its_fingerprint(admin: User) -> None:
    host = make_host()
    HostKey.objects.create(host=host, key="ssh-ed25519 BBBB", fingerprint="SHA256:new")

    wrong = browser(admin).post(f"{HOSTS}{host.pk}/approve-host-key/", {"fingerprint": "SHA256:other"})
    right = browser(admin).post(f"{HOSTS}{host.pk}/approve-host-key/", {"fingerprint": "SHA256:new"})

    assert (wrong.status_code, wrong.json()["field"]) == (400, "fingerprint")
    assert (right.json()["state"], right.json()["approved_by"]) == ("pinned", admin.username)
    assert browser(admin).get(f"{HOSTS}{host.pk}/").json()["fingerprint"] == "SHA256:new"


def test_a_host_that_does_not_answer_is_to_blame(admin: User) -> None:
    host = make_host(port=1)

    answer = browser(admin).post(f"{HOSTS}{host.pk}/fetch-host-key/")

    assert (answer.status_code, answer.json()["blame"], answer.json()["field"]) == (502, "host", host.name)


def test_a_check_is_requested_and_waits(operator: User) -> None:
    host = make_host()

    answer = browser(operator).post(f"{HOSTS}{host.pk}/check/")

    assert answer.status_code == 202
    assert answer.json()["check_requested_at"] is not None


def test_only_a_quarantined_host_can_be_released(admin: User) -> None:
    host = make_host(state=Host.State.READY)

    answer = browser(admin).post(f"{HOSTS}{host.pk}/release/")

    assert (answer.status_code, answer.json()["title"]) == (400, f"{host} is not in quarantine")


def test_a_release_waits_for_the_agent_s_word(admin: User) -> None:
    host = make_host(state=Host.State.QUARANTINED, state_reason="a rollback could not be proven")

    answer = browser(admin).post(f"{HOSTS}{host.pk}/release/")

    assert (answer.status_code, answer.json()["state"]) == (200, "quarantined")
    assert AuditEntry.objects.filter(action="host.release", target=str(host)).exists()


def test_the_newest_facts_are_shown_and_earlier_versions_remain(viewer: User) -> None:
    host = make_host()
    Facts.objects.create(host=host, number=2, digest="2", data=FACTS | {"level": "root"})
    client = browser(viewer)

    newest = client.get(f"{HOSTS}{host.pk}/facts/").json()
    first = client.get(f"{HOSTS}{host.pk}/facts/?number=1").json()
    history = client.get(f"{HOSTS}{host.pk}/facts/history/").json()

    assert (newest["number"], newest["data"]["level"]) == (2, "root")
    assert (first["number"], first["data"]["level"]) == (1, "user")
    assert [row["number"] for row in history["results"]] == [2, 1]
    assert client.get(f"{HOSTS}{host.pk}/facts/?number=9").status_code == 404
    assert client.get(f"{HOSTS}{host.pk}/facts/?number=x").status_code == 400


def test_a_host_never_checked_has_no_facts(viewer: User) -> None:
    assert browser(viewer).get(f"{HOSTS}{make_host(facts={}).pk}/facts/").status_code == 404


def test_hosts_are_found_by_name_and_state(viewer: User) -> None:
    make_host("alpha")
    make_host("beta", state=Host.State.QUARANTINED)
    client = browser(viewer)

    assert [row["name"] for row in client.get(f"{HOSTS}?name=alpha").json()["results"]] == ["alpha"]
    assert [row["name"] for row in client.get(f"{HOSTS}?state=quarantined").json()["results"]] == ["beta"]


def test_a_list_comes_in_pages(viewer: User) -> None:
    for number in range(5):
        make_host(f"h{number}")
    client = browser(viewer)

    first = client.get(f"{HOSTS}?page_size=2&ordering=-name").json()
    last = client.get(client.get(first["next"]).json()["next"]).json()

    assert [row["name"] for row in first["results"]] == ["h4", "h3"]
    assert (last["next"], [row["name"] for row in last["results"]]) == (None, ["h0"])


def test_ties_of_an_ordering_do_not_move_between_pages(viewer: User) -> None:
    for number in range(7):
        make_host(f"h{number}")
    client = browser(viewer)

    ids, page = [], f"{HOSTS}?page_size=2&ordering=state"
    while page:
        answer = client.get(page).json()
        ids += [row["id"] for row in answer["results"]]
        # A changed row lies elsewhere in its table, where rows that tie are found in another order.
        Host.objects.filter(pk__in=ids).update(state_reason=f"seen on {page}")
        page = answer["next"]

    assert len(ids) == len(set(ids)) == 7


def test_two_versions_of_the_facts_are_compared(viewer: User) -> None:
    host = make_host(facts=machine.facts())
    newer = machine.facts(kernel=machine.kernel(release="6.12.57-amd64"), hostname="bench-07", boot_id="b2")
    Facts.objects.create(host=host, number=2, digest="2", data=newer)
    client = browser(viewer)

    by_default = client.get(f"{HOSTS}{host.pk}/facts/diff/").json()
    named = client.get(f"{HOSTS}{host.pk}/facts/diff/?before=2&after=1").json()

    assert (by_default["before"], by_default["after"]) == (1, 2)
    assert by_default["changes"] == [
        {"path": "hostname", "before": "bench-01", "after": "bench-07", "weighty": False},
        {"path": "kernel.release", "before": "6.12.48-amd64", "after": "6.12.57-amd64", "weighty": True},
    ]
    assert named["changes"][0] == {"path": "hostname", "before": "bench-07", "after": "bench-01", "weighty": False}
    assert client.get(f"{HOSTS}{host.pk}/facts/diff/?after=9").status_code == 404
    assert client.get(f"{HOSTS}{host.pk}/facts/diff/?before=x").status_code == 400

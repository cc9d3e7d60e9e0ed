"""Contact with a host: pinned keys, installation of the agent, and refusals with the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import asyncssh
import pytest

from apps.accounts.models import User
from apps.hosts import contact, services, tasks
from apps.hosts.access import ssh
from apps.hosts.models import Host, HostKey
from apps.infrastructure import addresses
from common.errors import HostError, PlanError, RoleError
from tests.rows.factories import make_host
from tests.servers import machine, remote

pytestmark = pytest.mark.fast
Register = Callable[..., Host]


@pytest.fixture(params=remote.SERVERS)
def any_server(request: pytest.FixtureRequest) -> Iterator[remote.Server]:
    with remote.short_dir() as state, remote.serve(request.param, state) as server:
        yield server


def test_a_check_pushes_the_agent_and_reads_the_facts(register: Register, any_server: remote.Server) -> None:
    host = register(any_server)

    contact.check_host(host)

    host.refresh_from_db()
    assert (host.state, host.state_reason) == (Host.State.READY, "")
    assert host.level in ("root", "user")
    assert host.facts["cpus"]["online"]
    assert [installation["major"] for installation in host.facts["postgresql"] if "initdb" in installation["tools"]]
    assert host.agent_digest == ssh.agent_zipapp()[0]


def test_tasks_of_a_host_that_was_deleted_do_nothing(db: None) -> None:
    host = make_host()
    host.delete()

    tasks.check(host.pk)
    tasks.release(host.pk)

    assert not Host.objects.exists()


def test_a_check_ends_when_its_host_is_deleted_meanwhile(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    record = contact.record_contact

    def deleted_first(checked: Host, hello: dict[str, Any]) -> None:
        Host.objects.filter(pk=checked.pk).delete()
        record(checked, hello)

    monkeypatch.setattr(contact, "record_contact", deleted_first)

    tasks.check(host.pk)

    assert not Host.objects.exists()


def test_a_second_check_without_changes_keeps_the_version_of_the_facts(db: None) -> None:
    host = make_host(facts={})
    first = contact.record_facts(host, machine.facts())

    second = contact.record_facts(host, machine.facts(boot_id="b2", memory={**machine.facts()["memory"], "free_kb": 7}))

    assert (second.pk, second.number, second.digest) == (first.pk, 1, first.digest)
    assert second.seen_at > first.taken_at == second.taken_at
    assert host.facts["memory"]["free_kb"] == 7


def test_facts_that_last_make_a_new_version_when_they_change(db: None) -> None:
    host = make_host(facts={})
    contact.record_facts(host, machine.facts())

    contact.record_facts(host, machine.facts(kernel=machine.kernel(release="9.9.9")))

    assert [facts.number for facts in host.facts_history.all()] == [2, 1]


@pytest.mark.parametrize("ours", [{"busy": "a run", "dirty": []}, {"busy": None, "dirty": ["a run"]}])
def test_facts_are_not_read_while_settings_of_a_run_are_applied(db: None, ours: dict[str, Any]) -> None:
    class Link:
        hello = ours

        def call(self, verb: str, **_: Any) -> Any:
            raise AssertionError(f"{verb} was called")

    assert contact.read_facts(make_host(), Link()) is None  # type: ignore[arg-type]  # all that it needs of a link


def test_an_unapproved_host_is_not_connected_to(register: Register, server: remote.Server) -> None:
    host = register(server)
    host.host_keys.update(state=HostKey.State.OFFERED)

    with pytest.raises(HostError, match="not approved"), ssh.Link(host):
        pass


def test_a_changed_host_key_is_refused_and_reported(register: Register, server: remote.Server) -> None:
    host = register(server)
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    host.host_keys.update(key=other)

    contact.check_host(host)

    host.refresh_from_db()
    assert host.state == Host.State.UNREACHABLE
    assert "its host key differs from the approved one" in host.state_reason


def test_only_an_offered_fingerprint_can_be_approved(host: Host, admin: User) -> None:
    with pytest.raises(PlanError, match="did not offer"):
        services.approve_host_key(host, "SHA256:made-up", by=admin)


def test_a_new_address_needs_a_new_approval_of_its_key(host: Host, admin: User) -> None:
    services.change_host(host, port=host.port + 1, by=admin)

    assert host.pinned_key is None
    assert host.state == Host.State.NEW


@pytest.mark.parametrize("address", ["169.254.169.254", "8.8.8.8", "0.0.0.0", "224.0.0.1"])
def test_addresses_outside_the_allow_list_are_refused(host: Host, admin: User, address: str) -> None:
    with pytest.raises(PlanError, match="is not in an allowed network"):
        services.change_host(host, address=address, by=admin)


@pytest.mark.parametrize("address", ["db1..lan", f"{'a' * 64}.lan", "/hosts/db1/"])
def test_an_invalid_host_name_is_refused_as_an_address(host: Host, admin: User, address: str) -> None:
    with pytest.raises(PlanError, match="cannot be resolved") as refused:
        services.change_host(host, address=address, by=admin)

    assert refused.value.subject == "address"


def test_an_address_that_cannot_be_resolved_is_named_without_numbers_of_errors(host: Host) -> None:
    with pytest.raises(HostError) as refused:
        addresses.resolve("bench.invalid")

    assert str(refused.value).startswith("bench.invalid: the address cannot be resolved: ")
    assert "Errno" not in str(refused.value)


def test_a_viewer_adds_no_host(viewer: User) -> None:
    with pytest.raises(RoleError, match="needs admin"):
        services.create_identity("key", by=viewer)


def test_a_private_key_is_encrypted_at_rest(admin: User) -> None:
    identity = services.create_identity("key", by=admin)

    assert "PRIVATE" not in identity.private_key_encrypted
    assert identity.public_key.startswith("ssh-ed25519 ")


def test_an_invalid_uploaded_key_is_refused_by_field(admin: User) -> None:
    with pytest.raises(PlanError) as refused:
        services.create_identity("key", private_key="not a key", by=admin)

    assert refused.value.subject == "private_key"


def test_a_noisy_login_does_not_disturb(register: Register, server: remote.Server) -> None:
    """A .bashrc that prints: its bytes come before the first frame, and are skipped."""
    host = register(server)
    noisy = server.home / "noisy-python"
    noisy.write_text(f'#!/bin/sh\necho "Welcome! 3 updates"\nexec {host.python} "$@"\n')
    noisy.chmod(0o755)
    Host.objects.filter(pk=host.pk).update(python=str(noisy))
    host.refresh_from_db()

    contact.check_host(host)

    host.refresh_from_db()
    assert host.state == Host.State.READY, host.state_reason


def test_a_release_puts_the_host_back_into_service_when_nothing_is_left_dirty(host: Host) -> None:
    contact.quarantine(host, "a test says so")

    contact.release_host(host)

    host.refresh_from_db()
    assert (host.state, host.state_reason) == (Host.State.READY, "")


def test_a_release_of_a_host_that_does_not_answer_changes_nothing_but_says_so(host: Host) -> None:
    contact.quarantine(host, "a test says so")
    Host.objects.filter(pk=host.pk).update(port=1)
    host.refresh_from_db()

    contact.release_host(host)

    host.refresh_from_db()
    assert host.state == Host.State.QUARANTINED
    assert "not released" in host.state_reason


@pytest.mark.parametrize("name", ["add", "keys", "UPPER", "with space", "", "x" * 64])
def test_a_name_that_our_addresses_need_or_cannot_hold_is_refused(host: Host, admin: User, name: str) -> None:
    with pytest.raises(PlanError) as refused:
        services.change_host(host, name=name, by=admin)

    assert refused.value.subject == "name"

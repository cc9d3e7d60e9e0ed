"""A machine-id belongs to a host key: no host takes another one's queue, epoch or identity."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from apps.accounts.models import Membership, Role, Team, User
from apps.hosts import contact, services
from apps.hosts.facts import machines
from apps.hosts.models import Host, HostKey, Lease
from apps.hosts.usage import leases
from common.errors import HostError, PlanError, RoleError
from tests.rows.factories import make_host, make_user
from tests.servers import machines as registered
from tests.servers import remote

BOOT = "b" * 32


def pinned(host: Host) -> HostKey:
    key = host.pinned_key
    assert key
    return key


def with_key(name: str, key: str) -> Host:
    """A host that was never contacted, with a host key of its own."""
    host = make_host(name)
    Host.objects.filter(pk=host.pk).update(machine_id="")
    host.host_keys.update(key=key)
    host.refresh_from_db()
    return host


@pytest.mark.fast
@pytest.mark.needs("root", "machine-id")
@pytest.mark.django_db(transaction=True)
class TestRealHosts:
    @pytest.fixture
    def servers(self) -> Iterator[dict[str, remote.Server]]:
        with remote.several(["victim", "evil"]) as running:
            yield running

    def test_a_host_that_claims_another_machine_id_gets_no_access(
        self, servers: dict[str, remote.Server], admin: User
    ) -> None:
        victim, evil = (registered.register(name, servers[name], admin) for name in ("victim", "evil"))
        (servers["evil"].home / "machine-id").write_text(f"{victim.machine_id}\n")

        contact.check_host(evil)

        evil.refresh_from_db()
        assert evil.state == Host.State.UNREACHABLE
        assert "belongs to victim with another host key" in evil.state_reason
        assert evil.machine_id != victim.machine_id == evil.claimed_machine_id

    def test_a_host_that_was_reinstalled_continues_when_an_admin_accepts_it(
        self, servers: dict[str, remote.Server], admin: User
    ) -> None:
        host = registered.register("evil", servers["evil"], admin)
        fresh = uuid4().hex
        (servers["evil"].home / "machine-id").write_text(f"{fresh}\n")
        contact.check_host(host)
        host.refresh_from_db()
        assert "an admin can accept" in host.state_reason

        services.accept_machine(host, by=admin)
        contact.check_host(host)

        host.refresh_from_db()
        assert (host.state, host.machine_id, host.claimed_machine_id) == (Host.State.READY, fresh, "")


class TestBinding:
    pytestmark = pytest.mark.django_db

    def test_the_first_contact_binds_both(self) -> None:
        host = with_key("db", "ssh-ed25519 A")

        machines.check(host, "m1", BOOT)

        assert pinned(host).machine_id == "m1"
        with pytest.raises(HostError, match="it was m1 when its host key was approved"):
            machines.check(host, "m2", BOOT)

    def test_two_names_of_one_machine_show_the_same_key(self) -> None:
        first, second = with_key("db-a", "ssh-ed25519 A"), with_key("db-b", "ssh-ed25519 A")

        machines.check(first, "m1", BOOT)
        machines.check(second, "m1", BOOT)

        assert pinned(second).machine_id == "m1"

    def test_a_machine_without_a_machine_id_is_not_bound_to_one_boot(self) -> None:
        host = with_key("db", "ssh-ed25519 A")

        machines.check(host, BOOT, BOOT)
        machines.check(host, "c" * 32, "c" * 32)

        assert pinned(host).machine_id == ""

    def test_a_duplicate_needs_an_instance_admin(self) -> None:
        team = Team.objects.create(name="storage")
        lead, admin = make_user(Role.VIEWER), make_user(Role.ADMIN)
        Membership.objects.create(team=team, user=lead, role=Role.ADMIN)
        theirs, ours = with_key("theirs", "ssh-ed25519 A"), with_key("ours", "ssh-ed25519 B")
        Host.objects.filter(pk=ours.pk).update(team=team)
        ours.refresh_from_db()
        machines.check(theirs, "m1", BOOT)
        with pytest.raises(HostError, match="belongs to theirs"):
            machines.check(ours, "m1", BOOT)
        ours.refresh_from_db()

        with pytest.raises(RoleError, match="belongs to theirs"):
            machines.accept(ours, by=lead)
        machines.accept(ours, by=admin)

        machines.check(ours, "m1", BOOT)

    def test_nothing_is_accepted_that_no_host_said(self, admin: User) -> None:
        with pytest.raises(PlanError, match="has no machine-id to accept"):
            machines.accept(make_host(), by=admin)

    def test_another_key_is_another_machine_until_it_is_bound_again(self, admin: User) -> None:
        host = with_key("db", "ssh-ed25519 A")
        machines.check(host, "m1", BOOT)
        host.host_keys.update(state=HostKey.State.RETIRED)
        HostKey.objects.create(host=host, key="ssh-ed25519 B", fingerprint="SHA256:b", state=HostKey.State.PINNED)

        machines.check(host, "m2", BOOT)

        assert pinned(host).machine_id == "m2"


class TestEpoch:
    pytestmark = pytest.mark.django_db

    @pytest.mark.parametrize("epoch", [2**63 - 3, leases.LEAP + 2])
    def test_a_leap_that_would_leave_no_epoch_for_later_runs_is_refused(self, epoch: int) -> None:
        run = uuid4()
        leases.acquire("m1", run, 60)

        with pytest.raises(HostError, match="at most 1000001 is possible"):
            leases.raise_epoch("m1", run, above=epoch)

        assert Lease.objects.get(machine_id="m1").epoch == 1

    def test_an_epoch_raised_by_runs_of_another_server_is_accepted(self) -> None:
        run = uuid4()
        leases.acquire("m1", run, 60)

        assert leases.raise_epoch("m1", run, above=70_000) == 70_001

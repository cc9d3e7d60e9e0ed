"""Hosts behind a jump host: the connection leads through it, and an error says which of the two failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from apps.hosts import contact
from apps.hosts.models import Host, HostKey
from tests.servers import remote

pytestmark = [pytest.mark.fast, pytest.mark.needs("sshd"), pytest.mark.django_db(transaction=True)]
Register = Callable[..., Host]


@pytest.fixture
def jump_server() -> Iterator[remote.Server]:
    with remote.short_dir() as state, remote.openssh(state) as running:
        yield running


@pytest.fixture
def jump(register: Register, jump_server: remote.Server) -> Host:
    return register(jump_server, "gate-7")


@pytest.fixture
def behind(register: Register, server: remote.Server, jump: Host) -> Host:
    host = register(server)
    host.jump = jump
    host.save()
    return host


def reason(host: Host) -> str:
    contact.check_host(host)
    host.refresh_from_db()
    return host.state_reason


def test_a_host_is_reached_through_its_jump_host(behind: Host) -> None:
    assert (reason(behind), behind.state) == ("", Host.State.READY)


def close_its_port(jump: Host, server: remote.Server) -> None:
    with remote.short_dir() as state, remote.openssh(state) as ended:
        jump.port = ended.port
    jump.save()


def change_its_key(jump: Host, server: remote.Server) -> None:
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBNGMSqZqFyaMKr6lKWLz4xjSmiHbZ8vQ3XHVO9GP5pc"
    jump.host_keys.update(key=other)


def forget_our_key(jump: Host, server: remote.Server) -> None:
    server.authorized_keys.write_text("")


def withdraw_approval(jump: Host, server: remote.Server) -> None:
    jump.host_keys.update(state=HostKey.State.RETIRED)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (close_its_port, "no SSH connection: Connection refused"),
        (change_its_key, "its host key differs from the approved one"),
        (forget_our_key, "it refused the login"),
        (withdraw_approval, "its host key is not approved"),
    ],
)
def test_an_error_of_the_jump_host_is_not_blamed_on_the_host_behind_it(
    behind: Host, jump: Host, jump_server: remote.Server, break_it: Callable[..., None], message: str
) -> None:
    """It also does not name the jump host, which can belong to a private team."""
    break_it(jump, jump_server)
    behind.refresh_from_db()

    assert reason(behind) == f"here: its jump host failed: {message} (check the jump host first)"

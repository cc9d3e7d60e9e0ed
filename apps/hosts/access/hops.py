"""SSH connections to hosts, through their jump hosts. No other module opens connections.

An error says which of the two hosts failed."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import asyncssh

from apps.hosts.access import keys
from apps.hosts.models import Host
from apps.infrastructure import addresses
from common.errors import HostError, PlanError, UnreachableError

CONNECT_S = 15.0
CLOSE_S = 3.0
# Without a byte from the host for so long, the server asks whether it is there; after twice that time, the connection
# is lost. Longer than the server waits for events of a run (UNWATCHED_WAIT_S), so that following one asks nothing.
KEEPALIVE_S = 10


@dataclass(frozen=True)
class Hop:
    """The parameters of one connection, read before its event loop runs. `via`: those of the jump host."""

    address: str
    port: int
    user: str
    private_key: str = field(repr=False)
    certificate: str
    host_key: str
    via: Hop | None


def hop_of(host: Host) -> Hop:
    """Return the connection parameters. HostError if the host key is not approved; PlanError if the address is not
    allowed."""
    pinned = host.pinned_key
    if pinned is None or host.identity is None:
        raise UnreachableError(
            host, "its host key is not approved", hint="open the page of the host, compare and approve it"
        )
    login = keys.login(host.identity)
    certificate = login.certificate.text if login.certificate else ""
    return Hop(_address(host), host.port, host.user, login.private_key, certificate, pinned.key, _via(host))


def _via(host: Host) -> Hop | None:
    """Return the parameters of the jump host, if any. UnreachableError about `host` if it cannot be used."""
    if host.jump is None:
        return None
    try:
        return hop_of(host.jump)
    except HostError as error:
        raise _jump_failed(host, error.message) from error
    except PlanError as error:
        raise _jump_failed(host, "its address is not in an allowed network") from error


def _address(host: Host) -> str:
    """Return the address; names behind a jump host are resolved there."""
    return host.address if host.jump else addresses.resolve(host.address)


def fetch_host_key(host: Host) -> str:
    """Return the public key that the host presents now, as "algorithm base64". HostError if it does not answer."""
    address, via = _address(host), _via(host)
    with asyncio.Runner() as runner:
        return runner.run(_fetch_host_key(host, address, via))


async def _fetch_host_key(host: Host, address: str, via: Hop | None) -> str:
    async with AsyncExitStack() as stack:
        try:
            tunnel = await _open_tunnel(stack, via)
            async with asyncio.timeout(CONNECT_S):
                key = await asyncssh.get_server_host_key(address, host.port, tunnel=tunnel, config=None)
        except (OSError, asyncssh.Error) as error:
            raise unreachable(host, error) from error
    if key is None:
        raise HostError(host, "offered no host key", hint="check that it is an SSH server")
    return str(key.export_public_key().decode().strip())


async def connect(stack: AsyncExitStack, hop: Hop) -> asyncssh.SSHClientConnection:
    """Connect with exactly this host key and this private key, ignoring the account's own SSH configuration."""
    tunnel = await _open_tunnel(stack, hop.via)
    async with asyncio.timeout(CONNECT_S):
        connection = await asyncssh.connect(
            hop.address,
            hop.port,
            username=hop.user,
            client_keys=[_client_key(hop)],
            known_hosts=([asyncssh.import_public_key(hop.host_key)], [], []),
            tunnel=tunnel,
            config=None,
            agent_path=None,
            preferred_auth="publickey",
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=1,
        )
    stack.push_async_callback(_hang_up, connection)
    return connection


def _client_key(hop: Hop) -> asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate]:
    """The key alone, or with its certificate. OpenSSH's clients also offer both."""
    key = asyncssh.import_private_key(hop.private_key)
    return (key, asyncssh.import_certificate(hop.certificate)) if hop.certificate else key


class JumpError(OSError):
    """A jump host cannot be used. The message has neither its name nor its address: it can belong to a private team."""


async def _open_tunnel(stack: AsyncExitStack, via: Hop | None) -> asyncssh.SSHClientConnection | tuple[()]:
    if via is None:
        return ()
    try:
        return await connect(stack, via)
    except JumpError:
        raise
    except (OSError, asyncssh.Error) as error:
        raise JumpError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Why a jump host cannot be used, without addresses."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return "its host key differs from the approved one"
    if isinstance(error, asyncssh.PermissionDenied):
        return "it refused the login"
    if isinstance(error, TimeoutError):
        return f"no SSH connection within {CONNECT_S:g} s"
    number = getattr(error, "errno", None)
    return f"no SSH connection: {os.strerror(number)}" if number else "no SSH connection"


async def _hang_up(connection: asyncssh.SSHClientConnection) -> None:
    """Disconnect properly, or abort if the host does not answer: pending data would block for a quarter of an hour."""
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await connection.wait_closed()
    except TimeoutError:
        connection.abort()


def _jump_failed(host: Host, reason: str) -> UnreachableError:
    return UnreachableError(host, f"its jump host failed: {reason}", hint="check the jump host first")


def unreachable(host: Host, error: Exception) -> UnreachableError:
    """Return the error to raise if no connection to this host could be opened, or if it was lost."""
    if isinstance(error, JumpError):
        return _jump_failed(host, str(error))
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        hint = (
            "if the host was reinstalled, fetch and approve its new key; otherwise another machine may intercept "
            "the connection"
        )
        return UnreachableError(host, "its host key differs from the approved one", hint=hint)
    if isinstance(error, asyncssh.PermissionDenied):
        hint = f"add the public key of {host.identity} to ~{host.user}/.ssh/authorized_keys"
        if host.identity and host.identity.certificate_from:
            hint = f"let sshd trust the CA of {host.identity} (TrustedUserCAKeys), with {host.user} as a principal"
        return UnreachableError(host, f"refused the login of {host.user}", hint=hint)
    if isinstance(error, TimeoutError):
        return UnreachableError(
            host, f"no SSH connection within {CONNECT_S:g} s", hint="check that it is up and the port is open"
        )
    return UnreachableError(host, f"no SSH connection: {error}", hint="check that it is up and the port is open")

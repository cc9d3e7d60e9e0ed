"""SSH connections to hosts, with the agent's rpc at the other end. No other module opens connections.

A Link is synchronous on purpose: its event loop only runs inside a call, so the caller may use the database between
calls."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import tempfile
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import asyncssh
from django.conf import settings
from django.db import connection as database

from agents import build, launcher
from agents.wire import protocol
from apps.accounts.operation import vault
from apps.accounts.web import addresses
from apps.hosts.access import replies, signing
from apps.hosts.access.shapes import plain
from apps.hosts.models import Host, hosts
from common.errors import AgentError, HostError, PlanError, ProvingError, UnreachableError, WorkloadError

T = TypeVar("T")

CONNECT_S = 15.0
CALL_S = 20.0
OPEN_S = 60.0  # includes sending the agent over a slow line
CLOSE_S = 3.0
MAX_STDERR = 1 << 18
MAX_MESSAGE = 4000  # of an agent's error
# Reads the zipapp from stdin, and moves it into place once it is complete.
PUSH = """
import hashlib, os, sys
path, expected = sys.argv[1:]
data = sys.stdin.buffer.read()
if hashlib.sha256(data).hexdigest() != expected:
    sys.exit("the agent arrived damaged")
os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
temporary = path + ".%d" % os.getpid()
with open(temporary, "wb") as out:
    out.write(data)
    out.flush()
    os.fsync(out.fileno())
os.rename(temporary, path)
"""


_building = threading.Lock()


def agent_zipapp() -> tuple[str, bytes]:
    """Return (sha256, bytes) of the agent that this server sends. It is built once, even if several threads call
    this."""
    with _building:
        return _zipapp()


@cache
def _zipapp() -> tuple[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "agent.pyz"
        build.build_zipapp(target, settings.VERSION, settings.COMMIT)
        data = target.read_bytes()
    return hashlib.sha256(data).hexdigest(), data


@dataclass(frozen=True)
class Hop:
    """The parameters of one connection, read before its event loop runs. `via`: those of the jump host."""

    address: str
    port: int
    user: str
    private_key: str = field(repr=False)
    host_key: str
    via: Hop | None


def way(host: Host) -> tuple[Hop, str, str, bool, bool]:
    """Return the route to the host's agent. An open link can be reused as long as its route is unchanged."""
    return _hop(host), host.spool_dir, host.python, host.sudo, host.launcher


def _hop(host: Host) -> Hop:
    """Return the connection parameters. HostError if the host key is not approved; PlanError if the address is not
    allowed."""
    pinned = host.pinned_key
    if pinned is None or host.identity is None:
        raise UnreachableError(
            host, "its host key is not approved", hint="open the page of the host, compare and approve it"
        )
    private = vault.decrypt(host.identity.private_key_encrypted)
    return Hop(_address(host), host.port, host.user, private, pinned.key, _via(host))


def _via(host: Host) -> Hop | None:
    """UnreachableError about `host` when its jump host cannot be used."""
    if host.jump is None:
        return None
    try:
        return _hop(host.jump)
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
            raise _unreachable(host, error) from error
    if key is None:
        raise HostError(host, "offered no host key", hint="check that it is an SSH server")
    return str(key.export_public_key().decode().strip())


def lend_database() -> None:
    """Return the database connection to the pool before a wait, so that other threads can use it."""
    if database.settings_dict["OPTIONS"].get("pool") and not database.in_atomic_block:
        database.close()


class Link:
    """A connection to the agent of one host, as a context manager. Every call may raise HostError or AgentError."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._reader = protocol.FrameReader()
        self._calls = 0
        self._nudged = False
        self.sound = False  # every call so far got a reply, even if that was a failure

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Self:
        """Connect and call the agent's hello; its reply is `hello`. The caller closes the link."""
        try:
            self._way = way(self.host)
            if not self._wait(self._open(self._way[0])):
                digest, data = agent_zipapp()
                sent = signing.parcel(digest, data) if self.host.launcher else data
                self._wait(self._in_time(self._bring(digest, sent)))
            self._check_protocol()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Close the connection, and that to the jump host, each within CLOSE_S in any state."""
        try:
            self._wait(self._stack.aclose())
        finally:
            self._runner.close()

    def greet(self, host: Host, timeout_s: float) -> None:
        """Call hello again after a pause. AgentError or HostError if the link is broken or leads to another host."""
        if way(host) != self._way:
            raise HostError(host, "was changed since the connection was opened", hint="the server will connect again")
        self.host = host
        self.hello = self.call("hello", timeout_s=timeout_s)

    def call(self, verb: str, timeout_s: float = CALL_S, **args: Any) -> Any:
        """Send one request and return its reply. A Failure of the agent is raised as the error class of its cause."""
        return self._wait(self._call(verb, args, timeout_s))

    def nudge(self) -> None:
        """End the wait of a `read` in another thread, or of the next one."""
        self._nudged = True
        with suppress(RuntimeError):  # closed meanwhile; no call is waiting
            self._runner.get_loop().call_soon_threadsafe(self._send_nudge)

    def _send_nudge(self) -> None:
        with suppress(OSError, asyncssh.Error):  # the call that waits for the reply gets the error
            self._process.stdin.write(protocol.encode({"id": 0, "verb": "nudge", "args": {}}))

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        lend_database()
        return self._runner.run(doing)

    async def _open(self, hop: Hop) -> bool:
        """Start the agent and greet it. Returns False if it is not on the host."""
        try:
            self._connection = await _connect(self._stack, hop)
        except (OSError, asyncssh.Error) as error:
            raise _unreachable(self.host, error) from error
        return await self._in_time(self._meet())

    async def _in_time(self, doing: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(OPEN_S):
                return await doing
        except TimeoutError as error:
            raise HostError(
                self.host, f"no answer of the agent within {OPEN_S:g} s", hint="it may be busy or asleep"
            ) from error
        except (OSError, asyncssh.Error) as error:  # the host has just shut down
            raise _unreachable(self.host, error) from error

    async def _meet(self) -> bool:
        await self._start(agent_zipapp()[0])
        try:
            self.hello = await self._call("hello", {}, CALL_S)
        except AgentError:
            if not await self._missing():
                raise
            return False
        return True

    async def _bring(self, digest: str, sent: bytes) -> None:
        """Send the agent, with its signature for the launcher, then greet it."""
        await self._push(digest, sent)
        await self._start(digest)
        self.hello = await self._call("hello", {}, CALL_S)

    def _check_protocol(self) -> None:
        """Raise if the protocol differs. Agents are named by their content, so another user must have put this one
        there."""
        theirs = self.hello["protocol"]
        if theirs != protocol.VERSION:
            agent = f"its agent {self.hello.get('version') or 'without a version'} speaks protocol {theirs}"
            server = f"this server, version {settings.VERSION}, uses protocol {protocol.VERSION}"
            store = launcher.STORE if self.host.launcher else f"{self.host.spool_dir}/agent"
            hint = f"remove {store} on the host; the next contact sends the right agent"
            raise AgentError(self.host, f"{agent}; {server}", hint=hint)

    def _command(self, *args: str) -> str:
        sudo = ["sudo", "-n", "--"] if self.host.sudo else []
        return shlex.join([*sudo, *args])

    async def _start(self, digest: str) -> None:
        command = self._command(*self.host.agent_command("rpc", digest))
        self._process = await self._connection.create_process(command, encoding=None)
        self._reader = protocol.FrameReader()

    async def _missing(self) -> bool:
        """Return whether the agent is not on the host: the launcher reports it, or Python exits with status 2 before
        any frame."""
        await self._process.wait_closed()
        return bool(self._process.exit_status == (launcher.SEND if self.host.launcher else 2))

    async def _push(self, digest: str, data: bytes) -> None:
        if self.host.launcher:
            command = self._command(hosts.LAUNCHER, "install")
            hint = f"compare {launcher.CONFIG}/signers on the host with this server's keys: manage.py sign_agent"
        else:
            path = f"{self.host.spool_dir}/agent/{digest}.pyz"
            command = self._command(self.host.python, "-I", "-c", PUSH, path, digest)
            hint = (
                f"check that {self.host.user} can write to {self.host.spool_dir}, "
                f"and that {self.host.python} is 3.9 or newer"
            )
        async with asyncio.timeout(CALL_S):
            process = await self._connection.create_process(command, encoding=None, stdout=asyncssh.DEVNULL)
            process.stdin.write(data)
            process.stdin.write_eof()
            stderr = await _stderr_tail(process)
        if process.exit_status != 0:
            raise HostError(self.host, f"the agent could not be installed: {stderr}", hint=hint)

    async def _call(self, verb: str, args: dict[str, Any], timeout_s: float) -> Any:
        self._calls, self.sound = self._calls + 1, False
        if self._nudged and "wait_s" in args:
            args["wait_s"], self._nudged = 0.0, False
        try:
            async with asyncio.timeout(timeout_s):
                self._process.stdin.write(protocol.encode({"id": self._calls, "verb": verb, "args": args}))
                answer = await self._answer(self._calls)
        except TimeoutError as error:
            raise HostError(
                self.host, f"no answer to {verb} within {timeout_s:g} s", hint="it may be asleep"
            ) from error
        except (OSError, asyncssh.Error, protocol.WireError, ValueError, RecursionError) as error:
            raise AgentError(
                f"agent on {self.host}", f"{verb}: {error}", hint="the server will connect again"
            ) from error
        if answer.get("ok") is not True:
            self.sound = True
            raise _failure(self.host, answer.get("error"))
        result = replies.answer(self.host, verb, answer.get("result"))
        self.sound = True
        return result

    async def _answer(self, number: int) -> Any:
        while True:
            data = await self._process.stdout.read(1 << 16)
            if not data:
                raise AgentError(f"agent on {self.host}", await self._exit_status())
            for message in self._reader.feed(data):
                if not isinstance(message, dict):
                    raise protocol.WireError("an answer is not an object")
                if message.get("id") == number:
                    return message

    async def _exit_status(self) -> str:
        stderr = await _stderr_tail(self._process)
        return f"ended with status {self._process.exit_status}: {stderr or 'no message'}"


async def _stderr_tail(process: asyncssh.SSHClientProcess[bytes]) -> str:
    """Return the end of a process's stderr after it ends. A process that writes more than MAX_STDERR is closed."""
    stderr = bytearray()
    while data := await process.stderr.read(1 << 14):
        stderr += data
        if len(stderr) > MAX_STDERR:
            process.close()
            break
    await process.wait_closed()
    return plain(stderr.decode(errors="replace").strip()[-500:])


async def _connect(stack: AsyncExitStack, hop: Hop) -> asyncssh.SSHClientConnection:
    """Connect with exactly this host key and this private key, ignoring the account's own SSH configuration."""
    tunnel = await _open_tunnel(stack, hop.via)
    async with asyncio.timeout(CONNECT_S):
        connection = await asyncssh.connect(
            hop.address,
            hop.port,
            username=hop.user,
            client_keys=[asyncssh.import_private_key(hop.private_key)],
            known_hosts=([asyncssh.import_public_key(hop.host_key)], [], []),
            tunnel=tunnel,
            config=None,
            agent_path=None,
            preferred_auth="publickey",
            keepalive_interval=5,
            keepalive_count_max=3,
        )
    stack.push_async_callback(_hang_up, connection)
    return connection


class JumpError(OSError):
    """A jump host cannot be used. The message has neither its name nor its address: it can belong to a private team."""


async def _open_tunnel(stack: AsyncExitStack, via: Hop | None) -> asyncssh.SSHClientConnection | tuple[()]:
    if via is None:
        return ()
    try:
        return await _connect(stack, via)
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


def _unreachable(host: Host, error: Exception) -> UnreachableError:
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
        return UnreachableError(host, f"refused the login of {host.user}", hint=hint)
    if isinstance(error, TimeoutError):
        return UnreachableError(
            host, f"no SSH connection within {CONNECT_S:g} s", hint="check that it is up and the port is open"
        )
    return UnreachableError(host, f"no SSH connection: {error}", hint="check that it is up and the port is open")


BLAMED: dict[str, type[ProvingError]] = {
    "plan": PlanError,
    "host": HostError,
    "agent": AgentError,
    "workload": WorkloadError,
}


def _failure(host: Host, failure: Any) -> ProvingError:
    if not isinstance(failure, dict):
        return AgentError(f"agent on {host}", plain(f"answered with neither result nor error: {failure!r:.80}"))
    kind = BLAMED.get(str(failure.get("blame")), AgentError)
    texts = (str(failure.get(name) or "")[:MAX_MESSAGE] for name in ("subject", "message", "hint"))
    subject, message, hint = map(plain, texts)
    return kind(subject or host, message or "failed without a message", hint=hint)

"""Links to hosts: an SSH connection with the agent's rpc at the other end.

A Link is synchronous on purpose: its event loop only runs inside a call, so the caller may use the database between
calls."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import tempfile
import threading
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import asyncssh
from django.conf import settings
from django.db import connection as database

from agents import build, launcher
from agents.wire import protocol
from apps import tracing
from apps.hosts.access import hops, replies, signing
from apps.hosts.access.shapes import plain
from apps.hosts.models import Host, hosts
from common.errors import AgentError, HostError, PlanError, ProvingError, WorkloadError

T = TypeVar("T")

CALL_S = 20.0
OPEN_S = 60.0  # includes sending the agent over a slow line
AHEAD_S = 1.0  # how long before a call its request may be sent, or its reply read
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


def way(host: Host) -> tuple[hops.Hop, str, str, bool, bool]:
    """Return the route to the host's agent. An open link can be reused as long as its route is unchanged."""
    return hops.hop_of(host), host.spool_dir, host.python, host.sudo, host.launcher


def lend_database() -> None:
    """Return the database connection to the pool before a wait, so that other threads can use it."""
    if database.settings_dict["OPTIONS"].get("pool") and not database.in_atomic_block:
        database.close()


@dataclass
class _Ahead:
    """A request that was sent before its call. `answer` is None until it is read, `at` when the last of both was."""

    number: int
    args: dict[str, Any]
    at: float  # by the monotonic clock
    answer: dict[str, Any] | None = None

    @property
    def is_recent(self) -> bool:
        return time.monotonic() - self.at < AHEAD_S

    def serves(self, args: dict[str, Any]) -> bool:
        return self.args == args and self.is_recent


class Link:
    """A connection to the agent of one host, as a context manager. Every call may raise HostError or AgentError."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._reader = protocol.FrameReader()
        self._calls = 0
        self._ahead: dict[str, _Ahead] = {}  # by verb
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
                with tracing.span("send agent"):
                    self._wait(self._in_time(self._bring(digest, sent)))
            self._check_protocol()
        except BaseException:  # an interrupt as well: without a link, the caller has nothing to close
            self.close()
            raise
        return self

    def close(self) -> None:
        """Close the connection, and that to the jump host, each within hops.CLOSE_S in any state."""
        try:
            self._wait(self._stack.aclose())
        finally:
            self._runner.close()

    def greet(self, host: Host, timeout_s: float) -> None:
        """Call hello again after a pause. AgentError or HostError if the link is broken or leads to another host."""
        if way(host) != self._way:
            raise HostError(host, "was changed since the connection was opened", hint="the server will connect again")
        self.host = host
        now, requests = time.monotonic(), self._ahead.values()
        is_busy = any(request.answer is None and now - request.at < CALL_S for request in requests)
        self.hello = self.call("hello", timeout_s=CALL_S if is_busy else timeout_s)

    def call(self, verb: str, timeout_s: float = CALL_S, **args: Any) -> Any:
        """Send one request and return its reply. A Failure of the agent is raised as the error class of its cause."""
        return self._wait(self._call(verb, args, timeout_s))

    def ask(self, verb: str, **args: Any) -> None:
        """Send a request, so that the agent works on it until `call` with the same arguments waits for the reply. A
        call that comes later than AHEAD_S sends it again."""
        ahead = self._ahead.get(verb)
        if ahead and ahead.serves(args):
            return
        with suppress(OSError, asyncssh.Error):  # the next call fails as well
            number = self._runner.run(self._request(verb, args))
            self._ahead[verb] = _Ahead(number, args, time.monotonic())

    def nudge(self) -> None:
        """End the wait of a `read` in another thread, or of the next one."""
        self._nudged = True
        with suppress(RuntimeError):  # closed meanwhile; no call is waiting
            self._runner.get_loop().call_soon_threadsafe(self._send_nudge)

    def _send_nudge(self) -> None:
        with suppress(OSError, asyncssh.Error):  # the call that waits for a reply raises the same error
            self._process.stdin.write(protocol.encode({"id": 0, "verb": "nudge", "args": {}}))

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        lend_database()
        return self._runner.run(doing)

    async def _open(self, hop: hops.Hop) -> bool:
        """Start the agent and greet it. Returns False if it is not on the host."""
        try:
            self._connection = await hops.connect(self._stack, hop)
        except (OSError, asyncssh.Error) as error:
            raise hops.unreachable(self.host, error) from error
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
            raise hops.unreachable(self.host, error) from error

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

    async def _request(self, verb: str, args: dict[str, Any]) -> int:
        self._calls += 1
        self._process.stdin.write(protocol.encode({"id": self._calls, "verb": verb, "args": args}))
        return self._calls

    async def _call(self, verb: str, args: dict[str, Any], timeout_s: float) -> Any:
        ahead, self.sound = self._ahead.pop(verb, None), False
        self._ahead = {name: each for name, each in self._ahead.items() if each.is_recent}
        if self._nudged and "wait_s" in args:
            args["wait_s"], self._nudged = 0.0, False
        try:
            async with asyncio.timeout(timeout_s):
                if ahead is None or not ahead.serves(args):
                    ahead = _Ahead(await self._request(verb, args), args, time.monotonic())
                answer = ahead.answer or await self._answer(ahead.number)
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
        data = b""  # the answer may have been received together with the last one
        while True:
            for message in self._reader.feed(data):
                if not isinstance(message, dict):
                    raise protocol.WireError("an answer is not an object")
                if message.get("id") == number:
                    return message
                self._keep(message)
            data = await self._process.stdout.read(1 << 16)
            if not data:
                raise AgentError(f"agent on {self.host}", await self._exit_status())

    def _keep(self, message: dict[str, Any]) -> None:
        """Store the answer to a request that was sent ahead, for its call. Drop answers to calls that have ended."""
        for ahead in self._ahead.values():
            if ahead.number == message.get("id"):
                ahead.answer, ahead.at = message, time.monotonic()

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

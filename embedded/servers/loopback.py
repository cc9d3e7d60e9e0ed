"""An SSH server on 127.0.0.1, so that the demo can use this machine like any other host.

It supports what a real sshd does: commands of the same user through `/bin/sh -c`, SFTP, children that outlive their
session. It has no passwords, terminals and forwarding, and its home directory is in the state directory, which is
deleted with everything that was sent to this host."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import pwd
import random
import signal
import socket
import sys
from collections.abc import Awaitable
from pathlib import Path

import asyncssh

from embedded import paths, processes
from embedded.errors import StackError
from embedded.supervisor import Service

ADDRESS = "127.0.0.1"
PORTS = range(20000, 30000)  # below the ports that Linux uses for outgoing connections
CHUNK = 64 * 1024
GRACE_S = 20  # an agent that is asked to end restores the host first
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")


class Loopback:
    """The server's files in `state`/sshd, and its service. Key and port do not change."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.files = state / "sshd"
        self.home = state / "host"
        self.spool = self.home / "spool"
        self.key_file = self.files / "host_key"
        self.authorized_keys = self.files / "authorized_keys"
        self.user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def port(self) -> int:
        """The port on 127.0.0.1; `prepare` chooses it."""
        return int((self.files / "port").read_text())

    @property
    def host_key(self) -> str:
        """The public key in the format of known_hosts: "ssh-ed25519 AAAA..."."""
        return asyncssh.read_private_key(self.key_file).export_public_key().decode().strip()

    @property
    def service(self) -> Service:
        """The service for the supervisor."""
        argv = [sys.executable, "-m", "embedded.servers.loopback", str(self.state)]
        return Service(name="sshd", argv=argv, ready=self._answers, grace_s=GRACE_S + 10)

    def prepare(self) -> None:
        """Create missing directories, host key, list of authorized keys, and choose a port."""
        paths.private_dir(self.files)
        self.home.mkdir(exist_ok=True)
        if not self.key_file.exists():
            key = asyncssh.generate_private_key("ssh-ed25519", "proving-ground demo host")
            paths.write_private(self.key_file, key.export_private_key().decode())
        self.authorized_keys.touch(mode=0o600)
        if not (self.files / "port").exists():
            paths.write_private(self.files / "port", str(_free_port()))

    def authorize(self, public_key: str) -> None:
        """Accept this key from the next connection on. Adding it twice changes nothing."""
        line = public_key.strip()
        lines = self.authorized_keys.read_text().splitlines()
        if line not in lines:
            paths.write_private(self.authorized_keys, "\n".join([*lines, line]) + "\n")

    def _answers(self) -> bool:
        try:
            with socket.create_connection((ADDRESS, self.port), timeout=2) as client:
                return client.recv(4) == b"SSH-"
        except OSError:
            return False


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((ADDRESS, port))
            return port
    raise StackError(f"none of 100 ports tried between {PORTS.start} and {PORTS.stop} is free on {ADDRESS}")


class Children:
    """Starts commands and reports how they end. It collects all children, including adopted orphans."""

    def __init__(self) -> None:
        self._ends: dict[int, asyncio.Future[int]] = {}

    def spawn(self, command: str, env: dict[str, str], fds: tuple[int, int, int]) -> tuple[int, asyncio.Future[int]]:
        """Return PID, and a future with its status as in os.waitstatus_to_exitcode. `fds`: stdin, stdout, stderr."""
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", command],
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)],
            setsid=True,
            setsigdef=[signal.SIGPIPE],  # Python ignores SIGPIPE, but pipelines of a shell must not inherit that
        )
        self._ends[pid] = asyncio.get_running_loop().create_future()
        return pid, self._ends[pid]

    def reap(self) -> None:
        """Collect every child that ended; to be called on SIGCHLD."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                future = self._ends.pop(ended[0], None)
                if future is not None and not future.done():
                    future.set_result(os.waitstatus_to_exitcode(ended[1]))


class Gate(asyncssh.SSHServer):
    """Accepts only this user with an authorized key. The list is read again for each connection."""

    def __init__(self, host: Loopback) -> None:
        self._host = host

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection for begin_auth."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Return True: authentication is required."""
        keys = self._host.authorized_keys.read_text() if username == self._host.user else ""
        self._connection.set_authorized_keys(asyncssh.import_authorized_keys(keys))
        return True


def login_environment(host: Loopback) -> dict[str, str]:
    """Return the environment of a command. It has no variables of the server, which contain secrets."""
    account = {"HOME": str(host.home), "USER": host.user, "LOGNAME": host.user, "SHELL": "/bin/sh"}
    return {**account, **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}


async def execute(process: asyncssh.SSHServerProcess[bytes], host: Loopback, children: Children) -> None:
    """Handle one exec request: copy its three streams and report how it ended. Output is complete before the exit
    status."""
    if process.command is None:
        process.stderr.write(b"this host runs commands and SFTP, no interactive shell\n")
        process.exit(1)
        return
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe(), os.pipe()
    fds = (theirs_in, theirs_out, theirs_err)
    pid, ended = children.spawn(process.command, login_environment(host), fds)
    for fd in fds:
        os.close(fd)
    feeding = asyncio.create_task(_feed(process, ours_in, pid))
    outputs = (_drain(ours_out, process.stdout), _drain(ours_err, process.stderr))
    await asyncio.gather(*outputs)
    code = await ended
    feeding.cancel()
    if code < 0:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        process.exit(code)


async def _feed(process: asyncssh.SSHServerProcess[bytes], fd: int, pid: int) -> None:
    """Copy from the client to stdin of the command, until either side ends."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(fd, "wb", 0))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while data := await _read(process, pid):
            writer.write(data)
            await writer.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # the command closed its stdin, like `head`
    finally:
        writer.close()


async def _read(process: asyncssh.SSHServerProcess[bytes], pid: int) -> bytes:
    """Return the next bytes; b"" at the end or if the client is gone. Signals of the client are sent to the
    command's group."""
    while True:
        try:
            return await process.stdin.read(CHUNK)
        except asyncssh.SignalReceived as received:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.Signals[f"SIG{received.signal}"])
        except (asyncssh.Error, asyncssh.BreakReceived, OSError):
            return b""


async def _drain(fd: int, to: asyncssh.SSHWriter[bytes]) -> None:
    """Copy from the command to the client until its end. If the client is gone, the pipe is closed, as in sshd."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while data := await reader.read(CHUNK):
            to.write(data)
            await to.drain()
    except (asyncssh.Error, OSError):
        return
    finally:
        transport.close()


async def serve(host: Loopback, stop: asyncio.Event, children: Children) -> None:
    """Listen until `stop` is set."""

    def handler(process: asyncssh.SSHServerProcess[bytes]) -> Awaitable[None]:
        return execute(process, host, children)

    try:
        server = await asyncssh.listen(
            ADDRESS,
            host.port,
            server_factory=lambda: Gate(host),
            server_host_keys=[str(host.key_file)],
            process_factory=handler,
            sftp_factory=True,
            encoding=None,
            line_editor=False,
            config=None,
            password_auth=False,
            kbdint_auth=False,
            agent_forwarding=False,
            allow_pty=False,
            x11_forwarding=False,
        )
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        hint = f"end the program that uses it, or remove {host.files / 'port'} and add the host again"
        raise StackError(f"port {host.port} on {ADDRESS} is taken; {hint}") from error
    await stop.wait()
    server.close()


async def _main(host: Loopback) -> None:
    stop, children, loop = asyncio.Event(), Children(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    await serve(host, stop, children)


def main(state: Path) -> int:
    """Serve until SIGTERM, then end everything that was started over SSH. Agents get a signal first and restore the
    host."""
    host = Loopback(state)
    processes.adopt_orphans()
    os.chdir(host.home)
    try:
        asyncio.run(_main(host))
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        processes.end_descendants(GRACE_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""SSH servers on loopback for tests: the demo's own, and OpenSSH's where it is installed."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from embedded.servers.loopback import Loopback

SSHD = Path("/usr/sbin/sshd")
SERVERS = ["loopback", pytest.param("openssh", marks=pytest.mark.needs("sshd"))]


# The agent finds the machine-id that belongs to its home, and all that it starts does, too.
_PYTHON = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind "$0" /etc/machine-id && exec "$@"' {home}/machine-id {python} "$@"
"""


@dataclass(frozen=True)
class Server:
    """An SSH server: its address, its users, and its host key."""

    port: int
    user: str
    host_key: str
    authorized_keys: Path
    home: Path

    def authorize(self, public_key: str) -> None:
        with self.authorized_keys.open("a") as keys:
            keys.write(public_key.strip() + "\n")


@contextmanager
def serve(kind: str, state: Path) -> Iterator[Server]:
    """A server of `kind`, ended on the way out."""
    with {"loopback": _loopback, "openssh": openssh}[kind](state) as server:
        yield server


@contextmanager
def _loopback(state: Path) -> Iterator[Server]:
    loopback = Loopback(state)
    loopback.prepare()
    with _running(list(loopback.service.argv), loopback.port):
        yield Server(loopback.port, loopback.user, loopback.host_key, loopback.authorized_keys, loopback.home)


@contextmanager
def openssh(state: Path, *lines: str) -> Iterator[Server]:
    """OpenSSH's server. `lines` come first in its configuration, so they override the others."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(state / "host_key")
    (state / "host_key").chmod(0o600)
    authorized = state / "authorized_keys"
    authorized.touch(mode=0o600)
    home = state / "host"
    home.mkdir()
    port = _free_port()
    config = state / "sshd_config"
    first = "".join(f"{line}\n" for line in lines)
    config.write_text(
        f"{first}Port {port}\nListenAddress 127.0.0.1\nHostKey {state}/host_key\nAuthorizedKeysFile {authorized}\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
        f"MaxStartups 100\nMaxSessions 100\nSubsystem sftp internal-sftp\n"
        # BASH_ENV replaces ~/.bashrc, which tests must not write. Below SHLVL 1 bash would also read that of the user,
        # whose commands, such as waiting for a lock of all logins, would cost time.
        f"SetEnv BASH_ENV={home}/bashrc SHLVL=1\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # OpenSSH's privilege separation wants it
    with _running([str(SSHD), "-D", "-e", "-f", str(config)], port):
        public = key.export_public_key().decode().strip()
        yield Server(port, getpass.getuser(), public, authorized, home)


@contextmanager
def _running(argv: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        _await_port(port, process)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{process.args} does not listen on port {port}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def short_dir() -> Iterator[Path]:
    """A directory that every account can enter, unlike pytest's own. Its path is short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="pg-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def several(names: list[str]) -> Iterator[dict[str, Server]]:
    """An SSH server for each name, each a machine of its own to the agent."""
    with ExitStack() as stack:
        servers = {}
        for name in names:
            state = stack.enter_context(short_dir())
            servers[name] = stack.enter_context(serve("loopback", state))
            _prepare(servers[name].home)
        yield servers


def _prepare(home: Path) -> None:
    home.parent.chmod(0o755)
    (home / "machine-id").write_text(uuid.uuid4().hex + "\n")
    python = home / "python"
    python.write_text(_PYTHON.format(home=home, python=sys.executable))
    python.chmod(0o755)

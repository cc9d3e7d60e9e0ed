"""A container engine: the one that answers, or one started for the tests, which leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.compose import plugins

ROOT = Path(os.environ.get("PROVING_COMPOSE_DIR") or "/var/tmp/proving-compose").resolve()
DATA, PID, LOG = ROOT / "data", ROOT / "dockerd.pid", ROOT / "dockerd.log"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# What the server and Compose read. This process has the variables of another stack.
OURS = ("PROVING_", "POSTGRES_", "REDIS_", "COMPOSE_", "BUILD_")
START_S, STOP_S = 60.0, 60.0
EMPTY_RULES = """*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
COMMIT
*nat
COMMIT
"""


class EngineError(Exception):
    """A command of the engine failed; the message ends with its output."""


@dataclass(frozen=True)
class Engine:
    """How to call an engine. `is_own`: started for the tests."""

    environment: dict[str, str] = field(repr=False)  # may hold passwords, and a failing test shows this
    is_own: bool

    def docker(
        self,
        *arguments: str,
        cwd: Path | None = None,
        stdin: str = "",
        timeout_s: float = 600,
        **environment: str,
    ) -> str:
        """What docker with these arguments writes to standard output. Raises EngineError when it fails."""
        return self.call("docker", *arguments, cwd=cwd, stdin=stdin, timeout_s=timeout_s, **environment)

    def call(
        self,
        *argv: str,
        cwd: Path | None = None,
        stdin: str = "",
        timeout_s: float = 600,
        **environment: str,
    ) -> str:
        """What a program that calls this engine writes to standard output. Raises EngineError when it fails."""
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=self.environment | environment,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            output = (done.stdout + done.stderr)[-4000:]
            raise EngineError(f"{' '.join(argv)} failed with {done.returncode}:\n{output}")
        return done.stdout

    def has(self, *arguments: str) -> bool:
        """Whether docker with these arguments succeeds."""
        try:
            self.docker(*arguments)
        except (EngineError, subprocess.TimeoutExpired):
            return False
        return True


@contextmanager
def running_engine() -> Iterator[Engine]:
    """The container engine of this machine, or a temporary one until the block ends."""
    present = Engine(clean_environment(), is_own=False)
    if present.has("info"):
        yield present
        return
    _end_leftover()
    ROOT.mkdir(parents=True, exist_ok=True)
    with _network_put_back(), _daemon() as own:
        yield own
    if not os.environ.get("PROVING_COMPOSE_KEEP"):
        shutil.rmtree(ROOT)


def clean_environment() -> dict[str, str]:
    """That of this process, without the variables of the stack that `make run` starts."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)} | {"PATH": path}


@contextmanager
def _daemon() -> Iterator[Engine]:
    """dockerd with its own socket and directories. It ends with this process, however that ends."""
    socket = f"unix://{ROOT}/docker.sock"
    own = Engine(clean_environment() | {"DOCKER_HOST": socket, "DOCKER_CONFIG": str(_client_directory())}, is_own=True)
    places = [f"--data-root={DATA}", f"--exec-root={ROOT}/exec", f"--pidfile={PID}", f"--host={socket}"]
    with LOG.open("wb") as log:
        argv = ["setpriv", "--pdeathsig=TERM", "dockerd", "--ip6tables=false", *places]
        daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean_environment())
    try:
        deadline = time.monotonic() + START_S
        while not own.has("info"):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise EngineError(f"dockerd did not start:\n{LOG.read_text(errors='replace')[-4000:]}")
            time.sleep(0.5)
        yield own
    finally:
        daemon.terminate()
        daemon.wait(STOP_S)


def _client_directory() -> Path:
    """Configuration of the client: the plugins where this machine lacks them, and the proxies of this process."""
    client = ROOT / "client"
    client.mkdir(exist_ok=True)
    proxies = {
        f"{kind}Proxy": value
        for kind in ("http", "https", "no")
        if (value := os.environ.get(f"{kind}_proxy") or os.environ.get(f"{kind.upper()}_PROXY"))
    }
    (client / "config.json").write_text(json.dumps({"proxies": {"default": proxies}} if proxies else {}))
    if not Engine(clean_environment(), is_own=True).has("compose", "version"):
        plugins.unpack(client / "cli-plugins")
    return client


@contextmanager
def _network_put_back() -> Iterator[None]:
    """Turn on forwarding, so that dockerd leaves the policy of the firewall alone; afterwards restore all of it."""
    forwarding, rules = FORWARDING.read_text(), _call("iptables-save")
    FORWARDING.write_text("1")
    try:
        yield
    finally:
        subprocess.run(["ip", "link", "delete", "docker0"], check=False)
        _call("iptables-restore", stdin=EMPTY_RULES + rules)
        FORWARDING.write_text(forwarding)


def _call(*argv: str, stdin: str = "") -> str:
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=True).stdout


def _end_leftover() -> None:
    """Ends the dockerd of a test session that was killed."""
    try:
        pid = int(PID.read_text())
        is_ours = os.fsencode(f"--pidfile={PID}") in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + STOP_S
    while is_ours and Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        os.kill(pid, signal.SIGTERM)
        time.sleep(1)

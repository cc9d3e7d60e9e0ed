"""docker-compose.yml in a copy of this checkout, set up as in docs/operations/production.md; calls to its services."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from embedded.demo.client import Client
from embedded.errors import StackError
from tests.compose.engine import Engine
from tests.servers import package_index

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = "proving-ground-test"
SERVER = ("web", "worker", "dispatcher", "beat")
STORES = ("postgres", "redis")
SERVICES = (*SERVER, *STORES)
PROFILES = ("tls", "backup")
# For what is empty in .env.example the comment above it has a command.
COMMAND = re.compile(r"python3 -c '([^']+)'")
UP_S, HEALTHY_S, BUILD_S = 300.0, 240.0, 3600.0
Inspected = dict[str, Any]


@dataclass
class Stack:
    """The stack of a copy of the checkout in `folder`."""

    engine: Engine
    folder: Path
    port: int = 0
    variables: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def prepare(cls, engine: Engine, folder: Path) -> Stack:
        """A copy of what git has of this checkout, uncommitted changes included, with a filled in .env."""
        listed = subprocess.run(
            ["git", "-C", CHECKOUT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
            if (CHECKOUT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(CHECKOUT / name, folder / name)
        stack = cls(engine, folder, port=free_port())
        stack.set_variables(**_filled((folder / ".env.example").read_text()), **_build_settings(folder))
        stack.set_variables(
            PORT=str(stack.port),
            PROVING_ALLOWED_HOSTS="127.0.0.1",
            PROVING_BASE_URL=stack.url,
            PROVING_ADDRESS_ALLOW="10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
        )
        return stack

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_variables(self, **variables: str) -> None:
        """Write these and the earlier ones to .env."""
        self.variables |= variables
        lines = [f"{name}={value}\n" for name, value in self.variables.items()]
        (self.folder / ".env").write_text("".join(lines))
        (self.folder / ".env").chmod(0o600)

    def compose(self, *arguments: str, **options: Any) -> str:
        return self.engine.docker("compose", *arguments, cwd=self.folder, COMPOSE_PROJECT_NAME=PROJECT, **options)

    def manage(self, *arguments: str) -> str:
        return self.compose("exec", "-T", "web", "python", "manage.py", *arguments)

    def start(self) -> float:
        """Start missing services. Returns the seconds until all are healthy."""
        began = time.monotonic()
        self.compose("up", "-d", "--no-build", timeout_s=UP_S)
        self.wait_until_healthy()
        return time.monotonic() - began

    def stop(self, *options: str) -> None:
        self.compose(*(f"--profile={name}" for name in PROFILES), "down", *options, timeout_s=UP_S)

    def upgrade(self, commit: str) -> None:
        """deploy/upgrade, as an administrator calls it after git pull."""
        script = str(self.folder / "deploy" / "upgrade")
        self.engine.call(
            script, cwd=self.folder, timeout_s=BUILD_S, COMPOSE_PROJECT_NAME=PROJECT, PROVING_COMMIT=commit
        )

    def shell(self, command: str) -> str:
        """What a command of the documents writes to standard output, beside docker-compose.yml."""
        return self.engine.call("sh", "-c", command, cwd=self.folder, COMPOSE_PROJECT_NAME=PROJECT)

    def wait_until_healthy(self) -> None:
        wait(lambda: set(self.health().values()) == {"healthy"}, HEALTHY_S, self.health)

    def health(self) -> dict[str, str]:
        """container -> its health, for long-lived services."""
        inspected = [container for service in SERVICES for container in self.containers(service)]
        return {each["Name"].lstrip("/"): each["State"]["Health"]["Status"] for each in inspected}

    def containers(self, service: str) -> list[Inspected]:
        """What `docker inspect` has of each container of a service."""
        ids = self.compose("ps", "--all", "--quiet", service).split()
        return list(json.loads(self.engine.docker("inspect", *ids))) if ids else []

    def container(self, service: str) -> Inspected:
        (only,) = self.containers(service)
        return only

    def kill(self, service: str) -> None:
        """kill -9 of a container's first process, which the kernel follows by all others of the container."""
        os.kill(self.container(service)["State"]["Pid"], signal.SIGKILL)

    def memory(self) -> dict[str, str]:
        """container -> what it uses of which limit."""
        lines = self.engine.docker("stats", "--no-stream", "--format={{.Name}}\t{{.MemUsage}}").splitlines()
        named = dict(line.split("\t") for line in lines)
        return {name: usage for name, usage in sorted(named.items()) if name.startswith(PROJECT)}

    @cached_property
    def client(self) -> Client:
        """The API with the token of a new admin."""
        return Client(self.url, self.manage("create_admin", "automation", "--token", "1").split()[-1])

    def audit(self, *campaigns: str) -> dict[str, Any]:
        """The counts of tests/faults/counts/audit.py, from a container of the server that has this checkout's tests."""
        code = f"from tests.faults.counts import audit; audit.main({', '.join(map(repr, campaigns))})"
        tests = f"{self.folder}/tests:/srv/proving-ground/tests:ro"
        arguments = ["run", "--rm", "--no-deps", "-T", "--volume", tests, "migrate", "python", "manage.py", "shell"]
        shown = self.compose(*arguments, "--no-imports", "--command", code)
        return dict(json.loads(shown.splitlines()[-1]))


def wait(is_done: Callable[[], bool], limit_s: float, describe: Callable[[], object] = str) -> None:
    """Return when it is done; while the server does not answer it is not."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if is_done():
                return
        except StackError as error:
            last: object = error
        else:
            last = ""
        assert time.monotonic() < deadline, f"not done after {limit_s:.0f} s: {last or describe()}"
        time.sleep(1)


def _filled(example: str) -> dict[str, str]:
    """The variables of .env.example; empty ones with the output of the command that the comment above them names."""
    values, command = {}, ""
    for line in example.splitlines():
        if match := COMMAND.search(line):
            command = match[1]
        elif "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values[name] = value or _output(sys.executable, "-c", command)
    return values


def _build_settings(folder: Path) -> dict[str, str]:
    """This machine's CAs and package index for the build, as "Building the image" in docs/operations/production.md
    says."""
    settings = {}
    if index := package_index.settings():
        (folder / "pip.conf").write_text(package_index.pip_conf(index))
        settings["BUILD_PIP_CONF"] = str(folder / "pip.conf")
    cas = package_index.trusted_cas()
    return settings | ({"BUILD_CA": str(cas)} if cas else {})


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

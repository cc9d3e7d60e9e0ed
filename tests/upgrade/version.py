"""A version of the server, from a checkout of its own, on stores that it shares with another version."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import ModuleType

from embedded.errors import StackError
from embedded.servers.postgres import RUNTIME_USER
from embedded.stack import ADDRESS, MANAGE_TIMEOUT_S, Stack
from embedded.supervisor import Service, Supervisor

READY_S = 300  # users and runs go on meanwhile
PARTS = ("web", "worker", "dispatcher", "beat")


class Version(Stack):
    """Its services have its name: `before-web` and `after-web` run side by side."""

    def __init__(self, supervisor: Supervisor, name: str, checkout: Path, first_port: int) -> None:
        super().__init__(supervisor, first_port=first_port)
        self.name, self.checkout = name, checkout
        self.commands = _commands(checkout)

    @property
    def static_root(self) -> dict[str, str]:
        return {"PROVING_STATIC_ROOT": str(self.state / f"static-{self.name}")}

    def manage(self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """As that of every stack, in this checkout."""
        done = subprocess.run(
            [sys.executable, *self.commands.MIGRATE[:1], *arguments],
            cwd=self.checkout,
            env={**os.environ, **self.environment(), **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=MANAGE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise StackError(f"manage.py {' '.join(arguments)} of {self.name}: {done.stdout}{done.stderr}")
        return done.stdout

    def prepare(self) -> None:
        """What the administrator runs after `migrate`, and what the image has."""
        self.manage("runtime_role", RUNTIME_USER, stdin=self.postgres.runtime_password)
        self.manage("collectstatic", "--noinput", env=self.static_root)

    def begin(self, *parts: str) -> None:
        self.supervisor.start(*(self._service(part) for part in parts))

    def end(self, part: str) -> None:
        self.supervisor.end(f"{self.name}-{part}")

    def _service(self, part: str) -> Service:
        arguments = {
            "web": lambda: self.commands.web(f"{ADDRESS}:{self.port}"),
            "worker": self.commands.worker,
            "dispatcher": self.commands.dispatcher,
            "beat": lambda: self.commands.beat(str(self.state / "celerybeat-schedule")),
        }[part]()
        plain: Service = getattr(self, part)
        name = f"{self.name}-{part}"
        return replace(
            plain,
            name=name,
            argv=[sys.executable, *arguments],
            cwd=self.checkout,
            ready=self._ready(part, name),
            ready_s=READY_S,
        )

    def _ready(self, part: str, name: str) -> Callable[[], bool]:
        sign = {"worker": " ready.", "dispatcher": " ready.", "beat": "beat: Starting"}
        return self._is_ready if part == "web" else lambda: self._logged(name, sign[part])

    def _is_ready(self) -> bool:
        connection = HTTPConnection(ADDRESS, self.port, timeout=30)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _commands(checkout: Path) -> ModuleType:
    """The module `embedded.commands` of that checkout, which imports nothing."""
    spec = importlib.util.spec_from_file_location("commands_before", checkout / "embedded" / "commands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

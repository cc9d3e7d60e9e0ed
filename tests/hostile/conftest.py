"""A host whose agent tells the lies of the table, over real SSH."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apps.hosts import contact
from apps.hosts.models import Host
from tests.hostile import agent, flood
from tests.servers import machine, remote


@dataclass
class Liar:
    """The host, and the file with the name of its lie."""

    host: Host
    plan: Path

    def tell(self, **lie: Any) -> None:
        """Tell this lie from now on; no lie without arguments."""
        facts = machine.facts(level="user")
        self.plan.write_text(json.dumps({"facts": facts, "lie": lie or None}))

    def flood(self, way: str) -> None:
        """Flood the server in this way from the next run on; see flood.py."""
        plan = {"facts": machine.facts(level="user"), "first": flood.WAYS.index(way)}
        self.plan.write_text(json.dumps(plan))
        Path(self.host.python).write_text(_program(flood.__file__, self.plan))


def _program(file: str, plan: Path) -> str:
    """A shell script in the place of Python that starts this agent instead."""
    return f'#!/bin/sh\nexec {sys.executable} {file} {plan} "$@"\n'


@pytest.fixture
def liar(register: Callable[..., Host], server: remote.Server, tmp_path: Path) -> Liar:
    host = register(server, "liar")
    tmp_path.chmod(0o755)
    program, plan = tmp_path / "python", tmp_path / "plan.json"
    program.write_text(_program(agent.__file__, plan))
    program.chmod(0o755)
    Host.objects.filter(pk=host.pk).update(python=str(program))
    host.refresh_from_db()
    made = Liar(host, plan)
    made.tell()
    contact.check_host(host)
    host.refresh_from_db()
    assert host.state == Host.State.READY, host.state_reason
    return made

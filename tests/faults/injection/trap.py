"""A worker imports this (--include=tests.faults.injection.trap) and kills itself at a named moment.

The file `trap` in the server's state directory names the moment. The first process there removes the file and dies.
Without the file, the worker is unchanged. `agent-salt` makes it a server of another release: its agent has another
digest.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import zipfile
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings

from apps.campaigns.execution import claims
from apps.hosts.access import ssh
from tests.faults.injection.moments import ARMED, SHORT, SHORT_CLAIM_S, SHORT_VISIBILITY_S

_call, _zipapp = ssh.Link.call, ssh.agent_zipapp


def spring(moment: str, state: Path) -> None:
    trap = state / "trap"
    try:
        if trap.read_text() != moment:
            return
        trap.unlink()
    except FileNotFoundError:
        return
    os.killpg(0, signal.SIGKILL)


def call(link: ssh.Link, verb: str, timeout_s: float = ssh.CALL_S, **args: Any) -> Any:
    spring(f"before {verb}", settings.STATE_DIR)
    result = _call(link, verb, timeout_s, **args)
    spring(f"after {verb}", settings.STATE_DIR)
    return result


def salted(data: bytes, salt: str) -> tuple[str, bytes]:
    """(digest, zipapp) of an agent that does the same and is another."""
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("salt", salt)
    return hashlib.sha256(buffer.getvalue()).hexdigest(), buffer.getvalue()


def agent_zipapp() -> tuple[str, bytes]:
    salt = settings.STATE_DIR / "agent-salt"
    digest, data = _zipapp()
    return salted(data, salt.read_text()) if salt.exists() else (digest, data)


def arm() -> None:
    ssh.Link.call, ssh.agent_zipapp = call, agent_zipapp  # type: ignore[method-assign, assignment]
    if os.environ.get(SHORT):
        claims.CLAIM_S = SHORT_CLAIM_S
        current_app.conf.broker_transport_options["visibility_timeout"] = SHORT_VISIBILITY_S


if os.environ.get(ARMED):
    arm()

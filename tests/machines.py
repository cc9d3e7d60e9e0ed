"""Several hosts on this one: each with an SSH server, a spool, clusters and a machine-id of its own."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from apps.accounts.models import User
from apps.hosts import contact, services
from apps.hosts.models import Host
from embedded.postgres import bin_dir
from tests import remote

# The agent finds the machine-id that belongs to its home, and all that it starts does, too.
_PYTHON = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind "$0" /etc/machine-id && exec "$@"' {home}/machine-id {python} "$@"
"""


@contextmanager
def serve(names: list[str]) -> Iterator[dict[str, remote.Server]]:
    """An SSH server for each name."""
    with ExitStack() as stack:
        servers = {}
        for name in names:
            state = stack.enter_context(remote.short_dir())
            servers[name] = stack.enter_context(remote.serve("loopback", state))
            _prepare(servers[name].home)
        yield servers


def _prepare(home: Path) -> None:
    home.parent.chmod(0o755)
    (home / "machine-id").write_text(uuid.uuid4().hex + "\n")
    python = home / "python"
    python.write_text(_PYTHON.format(home=home, python=sys.executable))
    python.chmod(0o755)


def register(name: str, server: remote.Server, by: User) -> Host:
    """The machine behind a server, checked and ready."""
    identity = services.create_identity(f"key-{name}", by=by)
    server.authorize(identity.public_key)
    host = services.add_host(
        by=by,
        name=name,
        address="127.0.0.1",
        port=server.port,
        user=server.user,
        identity=identity,
        python=str(server.home / "python"),
        spool_dir=str(server.home / "spool"),
        data_dir=str(server.home / "clusters"),
        pg_bin_dirs=[str(bin_dir())],
    )
    services.approve_host_key(host, services.fetch_host_key(host, by=by).fingerprint, by=by)
    contact.check_host(host)
    host.refresh_from_db()
    assert host.state == Host.State.READY, host.state_reason
    return host
